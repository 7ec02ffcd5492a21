// The bars in table cells: the stacked parts of a score, and a share of answers with a mark at the share of capacity.
// Each bar is one element with a painted background, so an update causes no new layout.

import { make, setAttribute, setStyle } from "./dom-elements.js";
import { partColour, partLabel, sortMetrics } from "./metric-labels.js";
import { formatNumber, formatPercent } from "./value-format.js";

const cssPercent = fraction => `${(100 * Math.min(1, Math.max(0, fraction))).toFixed(2)}%`;

export function makeScoreBar() {
  const bar = make("div", "bar parts");
  bar.setAttribute("role", "img");
  return bar;
}

/** Draw the parts of a score, stacked; the full width of the bar is ``maxScore`` points. */
export function drawScoreBar(bar, parts, maxScore) {
  const stops = [];
  const labels = [];
  let start = 0;
  for (const metric of sortMetrics(Object.keys(parts))) {
    const points = parts[metric];
    labels.push(`${partLabel(metric)} ${formatNumber(points, 1, true)}`);
    if (points <= 0 || maxScore <= 0) continue;
    const next = start + points / maxScore;
    // A gap of one pixel separates neighbours for viewers who can't tell their colours apart
    const end = `calc(${cssPercent(next)} - 1px)`;
    stops.push(`${partColour(metric)} ${cssPercent(start)} ${end}`, `transparent ${end} ${cssPercent(next)}`);
    start = next;
  }
  setStyle(bar, "background-image", stops.length ? `linear-gradient(to right, ${stops.join(", ")}, transparent 0)` : "none");
  const description = labels.length ? `Parts of the score: ${labels.join(", ")}` : "The parts of the score are unknown";
  setAttribute(bar, "aria-label", description);
  setAttribute(bar, "title", labels.length ? labels.join("\n") : description);
}

export function makeShareBar() {
  const bar = make("div", "bar share");
  bar.setAttribute("role", "img");
  return bar;
}

/** Draw a share of answers, with a mark at the share of capacity; the full width of the bar is ``maxShare``. */
export function drawShareBar(bar, share, capacityShare, maxShare) {
  setStyle(bar, "--share", cssPercent(maxShare > 0 && share ? share / maxShare : 0));
  const hasMark = typeof capacityShare === "number" && maxShare > 0;
  setStyle(bar, "--mark", hasMark ? cssPercent(capacityShare / maxShare) : "-9px");
  const capacity = hasMark ? `, ${formatPercent(capacityShare, 1)} of the capacity` : "";
  const description = `${formatPercent(share, 1)} of the answers${capacity}`;
  setAttribute(bar, "aria-label", description);
  setAttribute(bar, "title", description);
}

/** Fill the legend that explains the colours of score bars. */
export function fillLegend(list, metrics) {
  const sorted = sortMetrics(metrics);
  if (list.dataset.metrics === sorted.join()) return;
  list.dataset.metrics = sorted.join();
  list.replaceChildren(...sorted.map(metric => {
    const swatch = make("i", "swatch");
    swatch.style.setProperty("background-color", partColour(metric));
    return make("li", "", swatch, partLabel(metric));
  }));
}
