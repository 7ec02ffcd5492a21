// HTTP requests to the server's API, with time limits and readable errors.

const TIMEOUT = 15_000;  // milliseconds; the server needs some seconds to read a long history

/** Return the body of a response as text. Throws an Error with the server's or the browser's reason and, for HTTP
 * errors, with ``status``. */
export async function fetchText(path, timeout, options = {}) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(timeout), ...options });
    if (response.ok) return await response.text();
  } catch (error) {
    throw new Error(error.name === "TimeoutError" ? `no response within ${timeout / 1000} s` : "no connection");
  }
  const body = await response.json().catch(() => ({}));
  const reason = typeof body.error === "string" ? body.error : `${response.status} ${response.statusText}`;
  throw Object.assign(new Error(reason), { status: response.status });
}

/** Return the JSON document at ``path``. */
export async function fetchJson(path) {
  return JSON.parse(await fetchText(path, TIMEOUT));
}

/** Return the JSON document at ``path``, or null if the server doesn't have it (404). */
export async function fetchJsonIfPresent(path) {
  try {
    return await fetchJson(path);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

/** Send an override command, such as "drain", and return the reply. ``token`` may be empty if the browser has credentials.
 * Throws an Error with ``status``: 409 if the pool needs the member. */
export async function sendCommand(command, parameters, token) {
  const headers = { "X-Lbdns-Steer": "1", ...(token && { Authorization: `Bearer ${token}` }) };
  const query = new URLSearchParams(parameters);
  return JSON.parse(await fetchText(`/api/v1/${command}?${query}`, TIMEOUT, { method: "POST", headers }));
}
