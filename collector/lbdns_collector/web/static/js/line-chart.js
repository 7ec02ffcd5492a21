// One plot, drawn by uPlot: lines over time, marks for events, and a table of the newest values or those at the pointer.

import { make, setAttribute, setHidden, setStyle, setText } from "./dom-elements.js";
import { COLOURS } from "./plotted-members.js";
import { NO_VALUE, formatAxisTime, formatAxisValue, formatReading, formatTime } from "./value-format.js";

const HEIGHT = 170;  // CSS pixels
const EVENT_DISTANCE = 6;  // CSS pixels between pointer and mark within which the event is shown
const MAX_TIP_EVENTS = 4;
const LEVEL_COLOURS = { info: "--quiet-line", warning: "--warn", error: "--bad" };
const CURSOR_GROUP = "lbdns";  // the plots in this group move their cursors together
const CLOCK_STEPS = [  // seconds between the labels of a time axis
  1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 432_000,
];

const pageStyle = getComputedStyle(document.documentElement);
const cssVariable = name => pageStyle.getPropertyValue(name).trim();
const lineColour = slot => `--series-${slot % COLOURS}`;
const lineDash = slot => (slot >= COLOURS ? [5, 3] : slot >= 5 ? [9, 2] : undefined);

export class LineChart {
  constructor(title) {
    this.title = make("h3", "", title);
    this.note = make("p", "note quiet");
    this.box = make("div", "plot");
    setAttribute(this.box, "role", "img");
    this.tip = make("p", "tip");
    this.tip.hidden = true;
    this.caption = make("caption", "unseen");
    this.rows = make("tbody");
    const tableHead = make("thead", "unseen", make("tr", "", make("th", "", "line"), make("th", "", "value")));
    for (const cell of tableHead.querySelectorAll("th")) cell.scope = "col";
    const table = make("table", "values", this.caption, tableHead, this.rows);
    this.element = make("figure", "chart", make("div", "plot-head", this.title, this.note), this.box, table);
    this.lines = [];
    this.events = [];
    this.isVisible = true;
    new ResizeObserver(() => this.resize()).observe(this.box);
    new IntersectionObserver(entries => {
      this.isVisible = entries.at(-1).isIntersecting;  // the last entry is the newest
    }, { rootMargin: "200px" }).observe(this.element);
  }

  /** Draw ``lines`` [{name, slot}] of the data {times, series} from time ``start`` to ``end``, in Unix seconds. */
  draw({ times, series }, lines, events, [start, end], description) {
    const signature = lines.map(({ name, slot }) => `${name}/${slot}`).join();
    this.range = [start, end];
    this.events = events;
    this.data = [times, ...lines.map(({ name }) => series[name] ?? times.map(() => null))];
    this.lines = lines;
    setAttribute(this.element, "aria-label", description);
    setAttribute(this.box, "aria-label", `Plot: ${description}. The table below lists the values.`);
    setText(this.caption, `${description}: newest values`);
    if (signature !== this.signature) {
      this.signature = signature;
      this.build();
    } else if (this.plot) {
      this.plot.setData(this.data);
    }
    this.showValues();
  }

  setNote(note) {
    setText(this.note, note);
  }

  resize() {
    const width = Math.floor(this.box.clientWidth);
    if (!width) return;
    if (!this.plot) this.build();
    else if (width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  /** Create the plot anew, because its lines or colours have changed. */
  build() {
    this.plot?.destroy();
    this.plot = null;
    this.makeValueRows();
    const width = Math.floor(this.box.clientWidth);
    if (!this.data || !width) return;
    this.plot = new uPlot(this.plotOptions(width), this.data, this.box);
    this.plot.over.append(this.tip);
  }

  plotOptions(width) {
    const axis = {
      stroke: cssVariable("--quiet"), font: `11px ${cssVariable("--font")}`, grid: { stroke: cssVariable("--grid"), width: 1 },
      ticks: { show: false },
    };
    return {
      width, height: HEIGHT, padding: [8, 10, 0, 0], legend: { show: false },
      cursor: { sync: { key: CURSOR_GROUP }, drag: { x: false, y: false }, y: false, points: { size: 5 }, focus: { prox: 12 } },
      focus: { alpha: 0.3 },
      scales: {
        x: { time: false, range: () => this.range },
        // The axis starts at 0, so that heights can be compared and noise doesn't fill the plot
        y: { range: (_, minimum, maximum) => [Math.min(0, minimum ?? 0), maximum > 0 ? maximum * 1.08 : 1] },
      },
      axes: [
        { ...axis, space: 64, size: 26, gap: 6, incrs: CLOCK_STEPS, values: (_, times, __, ___, step) => times.map(time => formatAxisTime(time, step)) },
        { ...axis, space: 30, size: 42, gap: 6, values: (_, values) => values.map(formatAxisValue) },
      ],
      series: [{}, ...this.lines.map(({ name, slot }) => ({
        label: name, stroke: cssVariable(lineColour(slot)), width: 1.5, dash: lineDash(slot), points: { show: false },
      }))],
      hooks: {
        drawClear: [plot => this.drawEventMarks(plot)],
        setCursor: [plot => this.moveCursor(plot)],
        setSeries: [(_, i) => this.highlightRow(i)],
      },
    };
  }

  /** Mark warnings and errors with a vertical line, information with a tick at the bottom. */
  drawEventMarks(plot) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.lineWidth = ratio;
    for (const event of this.events) {
      const x = Math.round(plot.valToPos(event.time, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = cssVariable(LEVEL_COLOURS[event.level] ?? LEVEL_COLOURS.info);
      const bottom = bbox.top + bbox.height;
      ctx.setLineDash([2 * ratio, 2 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, event.level === "info" ? bottom - 10 * ratio : bbox.top);
      ctx.lineTo(x, bottom);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x - 4 * ratio, bottom);
      ctx.lineTo(x + 4 * ratio, bottom);
      ctx.lineTo(x, bottom - 6 * ratio);
      ctx.fill();
    }
    ctx.restore();
  }

  moveCursor(plot) {
    const { left, idx } = plot.cursor;
    this.cursorIndex = left >= 0 && typeof idx === "number" ? idx : null;
    this.showValues();
    const isOwn = plot.cursor.event && left >= 0;  // the cursors of the other plots follow, but show no events
    const near = isOwn ? this.events.filter(({ time }) => Math.abs(plot.valToPos(time, "x") - left) <= EVENT_DISTANCE) : [];
    setHidden(this.tip, !near.length);
    if (!near.length) return;
    const hiddenCount = near.length - MAX_TIP_EVENTS;
    const eventTexts = near.slice(0, MAX_TIP_EVENTS).map(({ time, level, text }) => `${formatTime(time)} ${level}: ${text}`);
    setText(this.tip, eventTexts.join("\n") + (hiddenCount > 0 ? `\nand ${hiddenCount} more` : ""));
    const isLeftHalf = left < plot.over.clientWidth / 2;
    setStyle(this.tip, "left", isLeftHalf ? `${left + 8}px` : "auto");
    setStyle(this.tip, "right", isLeftHalf ? "auto" : `${plot.over.clientWidth - left + 8}px`);
  }

  highlightRow(index) {
    [...this.rows.children].forEach((row, i) => row.classList.toggle("focus", index === i + 1));
  }

  makeValueRows() {
    this.rows.replaceChildren(...this.lines.map(({ name, slot }, i) => {
      const swatch = make("i", lineDash(slot) ? "line dashed" : "line");
      swatch.style.setProperty("border-color", `var(${lineColour(slot)})`);
      const nameCell = make("th", "", swatch, name);
      nameCell.scope = "row";
      const row = make("tr", "", nameCell, make("td"));
      row.addEventListener("mouseenter", () => this.plot?.setSeries(i + 1, { focus: true }));
      row.addEventListener("mouseleave", () => this.plot?.setSeries(null, { focus: true }));
      return row;
    }));
  }

  showValues() {
    const index = this.cursorIndex ?? null;
    this.lines.forEach((_, i) => {
      const values = this.data[i + 1];
      const value = (index === null ? newestValue(values) : values[index]) ?? null;
      setText(this.rows.children[i].lastChild, value === null ? NO_VALUE : formatReading(value));
    });
  }
}

/** Return the newest of the last five values, or null if the line ended before them. */
function newestValue(values) {
  return values.slice(-5).findLast(value => value !== null) ?? null;
}
