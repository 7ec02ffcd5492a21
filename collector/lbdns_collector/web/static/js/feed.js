// Where the page hears of everything: the event stream, and questions in between where that is cut.

const POLL = 2000;  // milliseconds between questions while there is no event stream
const SILENCE = 5000;  // milliseconds without a status after which an open stream is not taken at its word
const PATIENCE = 4000;  // milliseconds that a status is waited for
const LONG_PATIENCE = 15_000;  // milliseconds for everything else
const GAP = 100;  // milliseconds between two updates: as fast as an eye follows
const SHARE = 9;  // the page rests so many times the work of an update before the next one
const LONGEST_REST = 2000;  // milliseconds, though: one update that was held up must not make the page look dead
const REFUSED = 20_000;  // milliseconds before a stream that was refused is tried again

/** What the server answers, as text. Raises an Error with its words, or ours; ``status`` tells 404 from the rest. */
async function fetchText(path, patience) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(patience) });
    if (response.ok) return await response.text();
  } catch (error) {
    throw new Error(error.name === "TimeoutError" ? `no answer within ${patience / 1000} s` : "no connection");
  }
  const told = await response.json().catch(() => ({}));
  const words = typeof told.error === "string" ? told.error : `${response.status} ${response.statusText}`;
  throw Object.assign(new Error(words), { status: response.status });
}

/** JSON from ``path``; a server that keeps much may take its time. */
export async function askFor(path) {
  return JSON.parse(await fetchText(path, LONG_PATIENCE));
}

/** As ``askFor``, but null where there is no such thing (404). */
export async function ask(path) {
  try {
    return await askFor(path);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

/** Calls ``status(document)``, ``log(event)`` and ``link(state)``: "live", "polling" or "old". */
export class Feed {
  constructor({ status, log, link }) {
    this.told = { status, log, link };
    this.heard = performance.now();
    this.pending = null;  // the newest status, not looked at yet
    this.timer = null;
    this.rested = 0;
    this.asking = false;
    this.stream = null;
  }

  start() {
    this.listen();
    setInterval(() => this.watch(), POLL);
  }

  listen() {
    const stream = new EventSource("/api/v1/events");
    this.stream = stream;
    stream.addEventListener("status", event => this.take(event.data));
    stream.addEventListener("log", event => this.told.log(JSON.parse(event.data)));
    stream.addEventListener("error", () => {
      this.poll();
      // After a refusal the browser gives up; after a cut it comes back by itself
      if (stream.readyState === EventSource.CLOSED) setTimeout(() => this.listen(), REFUSED);
    });
  }

  get streaming() {
    return this.stream.readyState === EventSource.OPEN;
  }

  watch() {
    if (!this.streaming || performance.now() - this.heard > SILENCE) this.poll();
  }

  async poll() {
    if (this.asking) return;
    this.asking = true;
    try {
      this.take(await fetchText("/api/v1/status", PATIENCE));
    } catch {
      this.told.link("old");
    } finally {
      this.asking = false;
    }
  }

  /** Only the newest document counts, and a page that has much to show leaves the browser time for its reader. */
  take(document) {
    this.heard = performance.now();
    this.pending = document;
    this.timer ??= setTimeout(() => this.update(), Math.max(0, this.rested - this.heard));
  }

  update() {
    const began = performance.now();
    const document = this.pending;
    this.timer = this.pending = null;
    this.told.status(JSON.parse(document), this.heard);
    this.told.link(this.streaming ? "live" : "polling");
    const ended = performance.now();
    this.rested = ended + Math.min(LONGEST_REST, Math.max(GAP, SHARE * (ended - began)));
  }
}
