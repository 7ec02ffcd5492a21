// The time range of the plots: the last minutes, hours or days up to now, or a fixed range that the viewer zoomed to.

import { make, setHidden, setText } from "./dom-elements.js";
import { readSetting, saveSetting } from "./url-settings.js";
import { formatTime } from "./value-format.js";

const SPANS = [[300, "5 min"], [3600, "1 h"], [86_400, "1 day"], [2_592_000, "30 days"]];
const DEFAULT_SPAN = SPANS[0][0];
const SHORTEST = 10;  // seconds
const LONGEST = SPANS.at(-1)[0];
const STEPS = [1, 2, 5, 10, 60, 120, 300, 600, 1800, 3600, 7200];  // seconds between two points; the averages' steps divide them
const POINTS = 400;  // at most; a plot is a few hundred pixels wide
const FINE_STEP_MEMBERS = 100;  // in larger pools, the server reads averages of 10 s instead of each second if it can

export class PlotRange {
  constructor(onChange) {
    this.onChange = onChange;
    this.span = Number(readSetting("span", DEFAULT_SPAN)) || DEFAULT_SPAN;
    const [from, to] = ["from", "to"].map(key => Number(readSetting(key, 0)));
    this.fixed = from > 0 && to > from ? [from, to] : null;  // [start, end] in Unix seconds; null: the range ends now
    this.label = make("span", "range-text quiet");
    this.liveButton = this.makeButton("Back to live", "Show the newest values again (Esc)", () => this.goLive());
    this.element = make("div", "plot-range", this.makeSpanChoice(), make("div", "zoom",
      this.makeButton("‹", "Earlier", () => this.move(-0.5)),
      this.makeButton("›", "Later", () => this.move(0.5)),
      this.makeButton("+", "Zoom in", () => this.scale(0.5)),
      this.makeButton("−", "Zoom out", () => this.scale(2)),
    ), this.liveButton, this.label);
    this.showState();
  }

  makeButton(text, title, onClick) {
    const button = make("button", "", text);
    Object.assign(button, { type: "button", title });
    if (text.length === 1) button.setAttribute("aria-label", title);
    button.addEventListener("click", onClick);
    return button;
  }

  makeSpanChoice() {
    const choice = make("fieldset", "segments", make("legend", "unseen", "Time range"));
    this.radios = SPANS.map(([seconds, spanText]) => {
      const radio = make("input");
      Object.assign(radio, { type: "radio", name: "span", value: seconds });
      radio.addEventListener("change", () => this.selectSpan(seconds));
      choice.append(make("label", "", radio, make("span", "", spanText)));
      return radio;
    });
    return choice;
  }

  selectSpan(seconds) {
    this.span = seconds;
    saveSetting("span", seconds === DEFAULT_SPAN ? "" : seconds);
    this.goLive();
  }

  /** Show the newest values. */
  goLive() {
    this.setFixed(null);
  }

  /** Show the range from ``start`` to ``end``, in Unix seconds. */
  zoom(start, end) {
    const now = Date.now() / 1000;
    const length = Math.min(LONGEST, Math.max(SHORTEST, end - start));
    const to = Math.min(now, (start + end + length) / 2);
    this.setFixed([Math.floor(to - length), Math.ceil(to)]);
  }

  /** Move the range by a fraction of its length. A range that reaches the present becomes live again. */
  move(fraction) {
    const now = Date.now() / 1000;
    const [start, end] = this.bounds(now);
    const offset = fraction * (end - start);
    if (end + offset >= now && Math.abs(end - start - this.span) < 3) this.goLive();
    else this.zoom(start + offset, end + offset);
  }

  /** Multiply the length of the range by ``factor``. A live range still ends now. */
  scale(factor) {
    const [start, end] = this.bounds(Date.now() / 1000);
    const length = factor * (end - start);
    const middle = this.fixed ? (start + end) / 2 : end - length / 2;
    this.zoom(middle - length / 2, middle + length / 2);
  }

  setFixed(range) {
    this.fixed = range;
    saveSetting("from", range ? range[0] : "");
    saveSetting("to", range ? range[1] : "");
    this.showState();
    this.onChange();
  }

  showState() {
    for (const radio of this.radios) radio.checked = !this.fixed && Number(radio.value) === this.span;
    setHidden(this.liveButton, !this.fixed);
    setText(this.label, this.fixed ? this.fixed.map(formatTime).join(" to ") : "");
  }

  /** Return [start, end] in Unix seconds. */
  bounds(now) {
    return this.fixed ?? [now - this.span, now];
  }

  get length() {
    return this.fixed ? this.fixed[1] - this.fixed[0] : this.span;
  }

  /** Return the number of seconds between two points of a plot of a pool with ``members`` members. */
  step(members) {
    const step = STEPS.find(seconds => seconds >= this.length / POINTS) ?? STEPS.at(-1);
    return step > 1 && step < 10 && members > FINE_STEP_MEMBERS ? 10 : step;
  }

  /** Return a text that changes if and only if the viewer selects another range. */
  get key() {
    return this.fixed ? this.fixed.join() : `last ${this.span}`;
  }
}
