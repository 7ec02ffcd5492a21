// One plot: lines over time, events as marks, and a table of the values under the pointer, else the newest ones.

import { attribute, hide, make, style, text } from "./dom.js";
import { NOTHING, axisTime, brief, figure, moment } from "./format.js";
import { COLOURS } from "./picks.js";

const HEIGHT = 170;  // CSS pixels
const NEAR = 6;  // CSS pixels from an event's mark in which the pointer means it
const TOLD = 4;  // events that are told at once
const LEVEL = { info: "--quiet-line", warning: "--warn", error: "--bad" };
const SYNC = "lbdns";

const tokens = getComputedStyle(document.documentElement);
const token = name => tokens.getPropertyValue(name).trim();

/** ``slot`` of a line -> its colour by name, and whether it is dashed to be told from the one of the same colour. */
const lineToken = slot => `--series-${slot % COLOURS}`;
const dash = slot => (slot >= COLOURS ? [5, 3] : slot >= 5 ? [9, 2] : undefined);

export class Chart {
  constructor(title) {
    this.title = make("h3", "", title);
    this.note = make("p", "note quiet");
    this.box = make("div", "plot");
    attribute(this.box, "role", "img");
    this.tip = make("p", "tip");
    this.tip.hidden = true;
    this.caption = make("caption", "unseen");
    this.rows = make("tbody");
    const head = make("thead", "unseen", make("tr", "", make("th", "", "line"), make("th", "", "value")));
    for (const cell of head.querySelectorAll("th")) cell.scope = "col";
    this.table = make("table", "values", this.caption, head, this.rows);
    this.heading = make("div", "plot-head", this.title, this.note);
    this.element = make("figure", "chart", this.heading, this.box, this.table);
    this.lines = [];
    this.events = [];
    this.visible = true;
    new ResizeObserver(() => this.resize()).observe(this.box);
    new IntersectionObserver(entries => {
      this.visible = entries.at(-1).isIntersecting;  // of several changes the last one
    }, { rootMargin: "200px" }).observe(this.element);
  }

  /** Draw ``{times, series}`` with ``lines`` [{name, slot}] over ``from`` to ``to``; ``what`` says it in words. */
  draw({ times, series }, lines, events, [from, to], what) {
    const signature = lines.map(({ name, slot }) => `${name}/${slot}`).join();
    this.span = [from, to];
    this.events = events;
    this.data = [times, ...lines.map(({ name }) => series[name] ?? times.map(() => null))];
    this.lines = lines;
    attribute(this.element, "aria-label", what);
    attribute(this.box, "aria-label", `Plot of ${what}. The table after it tells the values.`);
    text(this.caption, `${what}: newest values`);
    if (signature !== this.signature) {
      this.signature = signature;
      this.build();
    } else if (this.plot) {
      this.plot.setData(this.data);
    }
    this.showValues();
  }

  say(note) {
    text(this.note, note);
  }

  resize() {
    const width = Math.floor(this.box.clientWidth);
    if (!width) return;
    if (!this.plot) this.build();
    else if (width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  /** Anew: other lines, or other colours. */
  build() {
    this.plot?.destroy();
    this.plot = null;
    this.makeRows();
    const width = Math.floor(this.box.clientWidth);
    if (!this.data || !width) return;
    this.plot = new uPlot(this.options(width), this.data, this.box);
    this.plot.over.append(this.tip);
  }

  options(width) {
    const axis = {
      stroke: token("--quiet"), font: `11px ${token("--font")}`, grid: { stroke: token("--grid"), width: 1 },
      ticks: { show: false },
    };
    return {
      width, height: HEIGHT, padding: [8, 10, 0, 0], legend: { show: false },
      cursor: { sync: { key: SYNC }, drag: { x: false, y: false }, y: false, points: { size: 5 }, focus: { prox: 12 } },
      focus: { alpha: 0.3 },
      scales: {
        x: { time: false, range: () => this.span },
        // From 0 up: heights can be compared, and noise doesn't fill the plot
        y: { range: (_, least, most) => [Math.min(0, least ?? 0), most > 0 ? most * 1.08 : 1] },
      },
      axes: [
        { ...axis, space: 64, size: 26, gap: 6, incrs: STEPS, values: (_, at, __, ___, step) => at.map(unix => axisTime(unix, step)) },
        { ...axis, space: 30, size: 42, gap: 6, values: (_, at) => at.map(brief) },
      ],
      series: [{}, ...this.lines.map(({ name, slot }) => ({
        label: name, stroke: token(lineToken(slot)), width: 1.5, dash: dash(slot), points: { show: false },
      }))],
      hooks: {
        drawClear: [plot => this.mark(plot)],
        setCursor: [plot => this.pointed(plot)],
        setSeries: [(_, i) => this.focused(i)],
      },
    };
  }

  /** Events: a line for what matters, a tick at the foot for what is only news. */
  mark(plot) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.lineWidth = ratio;
    for (const event of this.events) {
      const x = Math.round(plot.valToPos(event.time, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = token(LEVEL[event.level] ?? LEVEL.info);
      const foot = bbox.top + bbox.height;
      ctx.setLineDash([2 * ratio, 2 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, event.level === "info" ? foot - 10 * ratio : bbox.top);
      ctx.lineTo(x, foot);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x - 4 * ratio, foot);
      ctx.lineTo(x + 4 * ratio, foot);
      ctx.lineTo(x, foot - 6 * ratio);
      ctx.fill();
    }
    ctx.restore();
  }

  pointed(plot) {
    const { left, idx } = plot.cursor;
    this.at = left >= 0 && typeof idx === "number" ? idx : null;
    this.showValues();
    const own = plot.cursor.event && left >= 0;  // a plot in step with another one points, but does not tell
    const near = own ? this.events.filter(({ time }) => Math.abs(plot.valToPos(time, "x") - left) <= NEAR) : [];
    hide(this.tip, !near.length);
    if (!near.length) return;
    const more = near.length - TOLD;
    const words = near.slice(0, TOLD).map(({ time, level, text: said }) => `${moment(time)} ${level}: ${said}`);
    text(this.tip, words.join("\n") + (more > 0 ? `\nand ${more} more` : ""));
    style(this.tip, "left", left < plot.over.clientWidth / 2 ? `${left + 8}px` : "auto");
    style(this.tip, "right", left < plot.over.clientWidth / 2 ? "auto" : `${plot.over.clientWidth - left + 8}px`);
  }

  focused(index) {
    [...this.rows.children].forEach((row, i) => row.classList.toggle("focus", index === i + 1));
  }

  makeRows() {
    this.rows.replaceChildren(...this.lines.map(({ name, slot }, i) => {
      const swatch = make("i", dash(slot) ? "line dashed" : "line");
      swatch.style.setProperty("border-color", `var(${lineToken(slot)})`);
      const head = make("th", "", swatch, name);
      head.scope = "row";
      const row = make("tr", "", head, make("td"));
      row.addEventListener("mouseenter", () => this.plot?.setSeries(i + 1, { focus: true }));
      row.addEventListener("mouseleave", () => this.plot?.setSeries(null, { focus: true }));
      return row;
    }));
  }

  showValues() {
    this.lines.forEach((_, i) => {
      const values = this.data[i + 1];
      const value = this.at === null || this.at === undefined ? newest(values) : values[this.at];
      text(this.rows.children[i].lastChild, value === null || value === undefined ? NOTHING : figure(value));
    });
  }
}

/** The last value, unless the line ended a while ago. */
function newest(values) {
  for (let i = values.length - 1; i >= 0 && i >= values.length - 5; i -= 1) {
    if (values[i] !== null) return values[i];
  }
  return null;
}

/** Steps of a time axis, in seconds: such as clocks have. */
const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 432_000];
