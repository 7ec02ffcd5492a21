// Labels, units, order and colours of the metrics in reports. A metric that isn't listed is shown by its own name.

const KNOWN_METRICS = {
  run_queue: ["run queue", "tasks"],
  cpu_idle: ["CPU idle", "%"],
  gateway_ping: ["gateway ping", "ms"],
  requests_per_s: ["requests/s", "requests/s"],
  scan_rate: ["scan rate", "pages/s"],
  idle_workers: ["idle workers", "workers"],
  run_queue_per_core: ["run queue per core", "tasks per core"],
  capacity_used: ["capacity used", "%"],
  idle_worker_share: ["idle worker share", "%"],
  busy_workers: ["busy workers", "workers"],
  load1: ["load average, 1 min", "tasks"],
  cpu_count: ["processors", "cores"],
  cpu_steal: ["CPU steal", "%"],
  mem_available: ["memory available", "%"],
  disk_busy: ["disk busy", "%"],
  disk_await: ["disk wait", "ms"],
  listen_queue: ["listen queue", "connections"],
  net_rx: ["network in", "bytes/s"],
  net_tx: ["network out", "bytes/s"],
  blocked_tasks: ["blocked tasks", "tasks"],
  mem_free: ["memory free", "bytes"],
  swap_free: ["swap free", "bytes"],
  page_in: ["paged in", "bytes/s"],
  page_out: ["paged out", "bytes/s"],
  cpu_user: ["CPU user", "%"],
  cpu_system: ["CPU system", "%"],
  cpu_iowait: ["CPU I/O wait", "%"],
  load5: ["load average, 5 min", "tasks"],
  load15: ["load average, 15 min", "tasks"],
  task_count: ["tasks", "tasks"],
  process_count: ["processes", "processes"],
  requests_total: ["total requests", "requests"],
  httpd_cpu_seconds: ["web server CPU time", "s"],
  answers: ["answers/s", "answers/s"],
  score: ["score", "points"],
  usable: ["usable", "1 = yes"],
  age_s: ["report age", "s"],
};
const ORDER = Object.keys(KNOWN_METRICS);
const PART_COLOURS = 8;  // --part-0 to --part-7
const colourSlots = new Map(ORDER.slice(0, 6).map((metric, i) => [metric, i]));
/** The metrics of the score headroom have the colours of the metrics from which they are derived. */
const DERIVED_FROM = { run_queue_per_core: "run_queue", capacity_used: "requests_per_s", idle_worker_share: "idle_workers" };
/** Labels of parts of a score that grow when the metric falls. */
const PART_LABELS = { capacity_used: "capacity free", run_queue_per_core: "run queue free" };

export function metricLabel(metric) {
  return KNOWN_METRICS[metric]?.[0] ?? metric.replaceAll("_", " ");
}

/** Return the label of a metric's part of the score: the more points, the better. */
export function partLabel(metric) {
  return PART_LABELS[metric] ?? metricLabel(metric);
}

export function metricUnit(metric) {
  return KNOWN_METRICS[metric]?.[1] ?? "";
}

/** Return the metrics in the order above, with unknown metrics last. */
export function sortMetrics(metrics) {
  const position = metric => (metric in KNOWN_METRICS ? ORDER.indexOf(metric) : ORDER.length);
  return [...metrics].sort((a, b) => position(a) - position(b) || a.localeCompare(b));
}

/** Return the colour of a metric's part of the score. The colour does not change until the page is closed. */
export function partColour(metric) {
  const named = DERIVED_FROM[metric] ?? metric;
  if (!colourSlots.has(named)) colourSlots.set(named, colourSlots.size);
  return `var(--part-${colourSlots.get(named) % PART_COLOURS})`;
}
