// A sparkline: a small line in a table cell that shows how a value has changed in the last minutes.

import { make } from "./dom-elements.js";

const [WIDTH, HEIGHT] = [64, 18];  // CSS pixels
export const SPARKLINE_SECONDS = 120;
export const darkMode = matchMedia("(prefers-color-scheme: dark)");

export class Sparkline {
  constructor() {
    this.element = make("canvas", "sparkline");
    this.element.setAttribute("aria-hidden", "true");  // the number beside it says the newest value
    this.drawn = null;
  }

  /** Draw ``values`` (null: unknown), one for each second, the newest last. The line reaches the top at ``maximum``. */
  draw(values, maximum) {
    // All values: a peak moves while the ends of the line stay the same. The colour depends on the mode
    const key = `${darkMode.matches} ${maximum} ${values}`;
    if (key === this.drawn) return;
    this.drawn = key;
    const { element } = this;
    const ratio = devicePixelRatio;
    const [width, height] = [Math.round(WIDTH * ratio), Math.round(HEIGHT * ratio)];
    if (element.width !== width) Object.assign(element, { width, height });
    const context = element.getContext("2d");
    context.clearRect(0, 0, width, height);
    context.strokeStyle = getComputedStyle(element).color;
    context.lineWidth = 1.25 * ratio;
    context.beginPath();
    let isDrawing = false;
    values.forEach((value, i) => {
      if (value === null) {
        isDrawing = false;
        return;
      }
      const x = width * (1 - (values.length - 1 - i) / (SPARKLINE_SECONDS - 1));
      const y = height - ratio - (height - 2 * ratio) * Math.min(1, maximum > 0 ? value / maximum : 0);
      if (isDrawing) context.lineTo(x, y);
      else context.moveTo(x, y);
      isDrawing = true;
    });
    context.stroke();
  }
}
