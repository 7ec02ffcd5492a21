// What was chosen on the page, kept in its address: a reload shows the same, and it can be sent to a colleague.

const anchors = new Set(["pools", "plots", "explain", "log"]);  // links within the page go their own way

function read() {
  const hash = location.hash.slice(1);
  return new URLSearchParams(anchors.has(hash) ? "" : hash);
}

const chosen = read();

export function setting(key, otherwise) {
  return chosen.get(key) ?? otherwise;
}

export function keep(key, value) {
  if (value === "" || value === null) chosen.delete(key);
  else chosen.set(key, value);
  history.replaceState(null, "", `#${chosen}`);
}
