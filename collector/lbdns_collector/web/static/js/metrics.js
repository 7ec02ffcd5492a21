// What reports may say, in people's words. Metrics that aren't here are shown by the name they have.

const KNOWN = {
  run_queue: ["run queue", "tasks"],
  cpu_idle: ["CPU idle", "%"],
  gateway_ping: ["gateway ping", "ms"],
  requests_per_s: ["requests/s", "requests/s"],
  scan_rate: ["scan rate", "pages/s"],
  idle_workers: ["idle workers", "workers"],
  busy_workers: ["busy workers", "workers"],
  load1: ["load, 1 min", "tasks"],
  cpu_count: ["processors", "cores"],
  cpu_steal: ["CPU stolen", "%"],
  mem_available: ["memory available", "%"],
  disk_busy: ["disk busy", "%"],
  disk_await: ["disk wait", "ms"],
  listen_queue: ["listen queue", "connections"],
  net_rx: ["network in", "bytes/s"],
  net_tx: ["network out", "bytes/s"],
  requests_total: ["requests in all", "requests"],
  httpd_cpu_seconds: ["web server's CPU time", "s"],
  answers: ["answers/s", "answers/s"],
  score: ["score", "points"],
  usable: ["usable", "1 = yes"],
  age_s: ["age of the report", "s"],
};
const ORDER = Object.keys(KNOWN);
const PART_COLOURS = 8;  // --part-0 to --part-7
const slots = new Map(ORDER.slice(0, 6).map((metric, i) => [metric, i]));

export function label(metric) {
  return KNOWN[metric]?.[0] ?? metric.replaceAll("_", " ");
}

export function unit(metric) {
  return KNOWN[metric]?.[1] ?? "";
}

/** Known ones first, in the order above. */
export function inOrder(metrics) {
  const place = metric => (metric in KNOWN ? ORDER.indexOf(metric) : ORDER.length);
  return [...metrics].sort((a, b) => place(a) - place(b) || a.localeCompare(b));
}

/** The colour of a metric's part of a score; the same one as long as the page lives. */
export function partColour(metric) {
  if (!slots.has(metric)) slots.set(metric, slots.size);
  return `var(--part-${slots.get(metric) % PART_COLOURS})`;
}
