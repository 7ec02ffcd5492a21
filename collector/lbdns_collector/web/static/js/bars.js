// Bars in table cells. Each is one element with a painted background: an update costs no layout.

import { attribute, make, style } from "./dom.js";
import { number, percent } from "./format.js";
import { inOrder, label, partColour } from "./metrics.js";

const position = part => `${(100 * Math.min(1, Math.max(0, part))).toFixed(2)}%`;

/** The parts of a score, stacked; the whole width stands for ``most`` points. */
export function scoreBar() {
  const bar = make("div", "bar parts");
  bar.setAttribute("role", "img");
  return bar;
}

export function showScore(bar, parts, most) {
  const stops = [];
  const words = [];
  let from = 0;
  for (const metric of inOrder(Object.keys(parts))) {
    const points = parts[metric];
    words.push(`${label(metric)} ${number(points, 1, true)}`);
    if (points <= 0 || most <= 0) continue;
    const to = from + points / most;
    // A hair of ground between neighbours tells them apart where colours don't
    const end = `calc(${position(to)} - 1px)`;
    stops.push(`${partColour(metric)} ${position(from)} ${end}`, `transparent ${end} ${position(to)}`);
    from = to;
  }
  style(bar, "background-image", stops.length ? `linear-gradient(to right, ${stops.join(", ")}, transparent 0)` : "none");
  const told = words.length ? `Parts of the score: ${words.join(", ")}` : "no parts of the score are known";
  attribute(bar, "aria-label", told);
  attribute(bar, "title", words.length ? words.join("\n") : told);
}

/** A share as a bar, with a mark where it would be by capacity; the whole width stands for ``most``. */
export function shareBar() {
  const bar = make("div", "bar share");
  bar.setAttribute("role", "img");
  return bar;
}

export function showShare(bar, share, mark, most) {
  const width = position(most > 0 && share ? share / most : 0);
  style(bar, "--share", width);
  const marked = typeof mark === "number" && most > 0;
  style(bar, "--mark", marked ? position(mark / most) : "-9px");
  const told = marked ? `${percent(share, 1)} of the answers, ${percent(mark, 1)} of the capacity` : `${percent(share, 1)} of the answers`;
  attribute(bar, "aria-label", told);
  attribute(bar, "title", told);
}

/** What colours in a score bar stand for. */
export function showLegend(list, metrics) {
  const wanted = inOrder(metrics);
  if (list.dataset.metrics === wanted.join()) return;
  list.dataset.metrics = wanted.join();
  list.replaceChildren(...wanted.map(metric => {
    const swatch = make("i", "swatch");
    swatch.style.setProperty("background-color", partColour(metric));
    return make("li", "", swatch, label(metric));
  }));
}
