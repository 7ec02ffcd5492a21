// The metrics that plots can show: those that members report, those that the server adds, and the load of the CPUs.

import { metricLabel, metricUnit, sortMetrics } from "./metric-labels.js";

const ALWAYS_AVAILABLE = ["answers", "score", "usable", "age_s"];  // for every member, whatever it reports
const RATES = new Set(["answers", "requests_per_s"]);  // counted events, averaged over more time if there are few
const PERCENTAGES = new Set(["cpu", "cpu_idle", "cpu_steal", "mem_available", "disk_busy"]);
/** Metrics that the page calculates from a reported one; ``of`` reverses the order if ``isReversed`` */
const CALCULATED = { cpu: { source: "cpu_idle", label: "CPU", unit: "% busy", of: value => 100 - value, isReversed: true } };

export const plotLabel = metric => CALCULATED[metric]?.label ?? metricLabel(metric);
export const plotUnit = metric => CALCULATED[metric]?.unit ?? metricUnit(metric);
export const sourceMetric = metric => CALCULATED[metric]?.source ?? metric;
export const isRate = metric => RATES.has(metric);

/** Return the upper end of a metric's axis if it is always the same, or 0. */
export const axisMaximum = metric => (PERCENTAGES.has(metric) ? 100 : metric === "usable" ? 1 : 0);

/** Report whether a pool has values of a metric. */
export function isAvailable(metric, pool) {
  return ALWAYS_AVAILABLE.includes(metric) || pool.metrics.has(sourceMetric(metric));
}

/** Return the metrics of a pool that the viewer can choose, and ``chosen``, which the pool may lack. */
export function metricChoices(pool, chosen) {
  const calculated = Object.keys(CALCULATED).filter(metric => isAvailable(metric, pool));
  const known = new Set([...ALWAYS_AVAILABLE, ...pool.metrics, chosen].filter(metric => !(metric in CALCULATED)));
  return [...new Set([...calculated, ...chosen in CALCULATED ? [chosen] : []]), ...sortMetrics(known)];
}

/** Return {times, series, others} with the values of ``metric``, given those of its source. */
export function calculate(metric, { times, series, others }) {
  const { of, isReversed } = CALCULATED[metric] ?? {};
  if (!of) return { times, series, others };
  const convert = values => values?.map(value => (value === null ? null : of(value)));
  const converted = Object.fromEntries(Object.entries(series).map(([name, values]) => [name, convert(values)]));
  const { mean, lowest, highest } = others;
  if (!mean) return { times, series: converted, others: {} };
  const [low, high] = isReversed ? [highest, lowest] : [lowest, highest];
  return { times, series: converted, others: { mean: convert(mean), lowest: convert(low), highest: convert(high) } };
}
