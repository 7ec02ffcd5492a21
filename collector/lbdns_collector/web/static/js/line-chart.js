// One plot, drawn by uPlot: lines or stacked areas over time, marks for events, and a table of the newest values or those
// at the pointer. To zoom, drag across the plot.

import { make, setAttribute, setHidden, setStyle, setText } from "./dom-elements.js";
import { stack } from "./plot-values.js";
import { COLOURS } from "./plotted-members.js";
import { NO_VALUE, formatAxisTime, formatAxisValue, formatReading, formatTime } from "./value-format.js";

const HEIGHT = 170;  // CSS pixels
const RIGHT_PADDING = 10;  // CSS pixels
const EVENT_DISTANCE = 6;  // CSS pixels between pointer and mark within which the event is shown
const MAX_TIP_EVENTS = 4;
const LEVEL_COLOURS = { info: "--quiet-line", warning: "--warn", error: "--bad" };
const CURSOR_GROUP = "lbdns";  // the plots in this group move their cursors together
const DRAGGING = new Set(["mousedown", "mouseup", "dblclick"]);  // only the plot under the pointer shows the selection
const MIN_DRAG = 5;  // CSS pixels; less is a click
const CLOCK_STEPS = [  // seconds between the labels of a time axis
  1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 432_000,
];

const pageStyle = getComputedStyle(document.documentElement);
const cssVariable = name => pageStyle.getPropertyValue(name).trim();
const lineColour = slot => (slot === null ? "--quiet" : `--series-${slot % COLOURS}`);  // null: all other members
const lineDash = slot => (slot === null || slot < 5 ? undefined : slot >= COLOURS ? [5, 3] : [9, 2]);
const translucent = (colour, opacity) => colour + Math.round(255 * opacity).toString(16);  // of a colour as #rrggbb

export class LineChart {
  /** ``onZoom`` receives the start and end of a range that the viewer selects, in Unix seconds; ``onReset`` is called on a
   * double click. ``onCursor`` receives the time at the pointer, or null. ``isStepped`` is for values that hold until the
   * next one. */
  constructor(title, { isStacked = false, isStepped = false, onZoom, onReset, onCursor, onVisible } = {}) {
    Object.assign(this, { isStacked, isStepped, onZoom, onReset, onCursor });
    this.title = make("h3", "", title);
    this.note = make("p", "note quiet");
    this.box = make("div", "plot");
    setAttribute(this.box, "role", "img");
    setAttribute(this.box, "aria-label", title ? `Plot: ${title}` : "Plot");  // until something is drawn
    this.tip = make("p", "tip");
    this.loading = make("p", "loading", "Loading the history …");
    this.tip.hidden = this.loading.hidden = true;
    this.box.append(this.loading);
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
      const wasVisible = this.isVisible;
      this.isVisible = entries.at(-1).isIntersecting;  // the last entry is the newest
      if (this.isVisible && !wasVisible) onVisible?.();
    }, { rootMargin: "200px" }).observe(this.element);
  }

  /** Draw ``lines`` [{name, label, slot, values}] from ``range[0]`` to ``range[1]``, in Unix seconds. The area between
   * the values ``band`` {lowest, highest} is shaded. A ``maximum`` other than 0 fixes the upper end of the axis. */
  draw({ times, lines, band, events, range, maximum, description }) {
    if (this.plot?.select.width > 0) return;  // the viewer is selecting a range
    const signature = JSON.stringify([lines.map(({ label, slot }) => [label, slot]), Boolean(band)]);
    Object.assign(this, { lines, events, range, maximum, firstLine: band ? 3 : 1 });
    const values = lines.map(line => line.values);
    this.data = [times, ...band ? [band.highest, band.lowest] : [], ...this.isStacked ? stack(values) : values];
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

  /** Show or hide the sign that the plot waits for its history. */
  setLoading(isLoading) {
    setAttribute(this.element, "aria-busy", String(isLoading));
    setHidden(this.loading, !isLoading);
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
      width, height: HEIGHT, padding: [8, RIGHT_PADDING, 0, 0], legend: { show: false },
      cursor: {
        sync: { key: CURSOR_GROUP, filters: { pub: type => !DRAGGING.has(type) } },
        drag: { x: Boolean(this.onZoom), y: false, dist: MIN_DRAG, setScale: false },
        bind: { dblclick: () => () => this.onReset?.() },
        y: false, points: { size: 5 }, focus: { prox: 12 },
      },
      focus: { alpha: 0.3 },
      scales: {
        x: { time: false, range: () => this.range },
        // The axis starts at 0, so that heights can be compared and noise doesn't fill the plot
        y: { range: (_, minimum, maximum) => [Math.min(0, minimum ?? 0), this.maximum || (maximum > 0 ? maximum * 1.08 : 1)] },
      },
      axes: [
        { ...axis, space: 64, size: 26, gap: 6, incrs: CLOCK_STEPS, values: (plot, times, _, __, step) => timeLabels(plot, times, step) },
        { ...axis, space: 30, size: 42, gap: 6, values: (_, values) => values.map(formatAxisValue) },
      ],
      series: [{}, ...this.firstLine > 1 ? [this.bandEdge(), this.bandEdge()] : [], ...this.lines.map(line => this.seriesOptions(line))],
      bands: this.bands(),
      hooks: {
        drawClear: [plot => this.drawEventMarks(plot)],
        setCursor: [plot => this.moveCursor(plot)],
        setSeries: [(_, i) => this.highlightRow(i)],
        setSelect: [plot => this.zoomToSelection(plot)],
      },
    };
  }

  bandEdge() {
    return { stroke: "transparent", width: 0, points: { show: false } };
  }

  seriesOptions({ label, slot }) {
    const colour = cssVariable(lineColour(slot));
    const fill = this.isStacked ? translucent(colour, slot === null ? 0.25 : 0.45) : undefined;
    const paths = this.isStepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
    return { label, stroke: colour, fill, paths, width: this.isStacked ? 1 : 1.5, dash: this.isStacked ? undefined : lineDash(slot), points: { show: false } };
  }

  bands() {
    if (this.firstLine > 1) return [{ series: [1, 2], fill: translucent(cssVariable("--quiet"), 0.16) }];
    return this.isStacked ? this.lines.slice(1).map((_, i) => ({ series: [i + 2, i + 1] })) : [];
  }

  zoomToSelection(plot) {
    const { left, width } = plot.select;
    if (width < MIN_DRAG) return;
    const [start, end] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.onZoom?.(start, end);
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
    if (isOwn) this.onCursor?.(plot.posToVal(left, "x"));
    else if (left < 0) this.onCursor?.(null);
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
    [...this.rows.children].forEach((row, i) => row.classList.toggle("focus", index === i + this.firstLine));
  }

  makeValueRows() {
    this.rows.replaceChildren(...this.lines.map(({ label, slot }, i) => {
      const swatch = make("i", lineDash(slot) ? "line dashed" : "line");
      swatch.style.setProperty("border-color", `var(${lineColour(slot)})`);
      const nameCell = make("th", "", swatch, label);
      nameCell.scope = "row";
      const row = make("tr", "", nameCell, make("td"));
      row.addEventListener("mouseenter", () => this.plot?.setSeries(i + this.firstLine, { focus: true }));
      row.addEventListener("mouseleave", () => this.plot?.setSeries(null, { focus: true }));
      return row;
    }));
  }

  showValues() {
    const index = this.cursorIndex ?? null;
    this.lines.forEach(({ values }, i) => {
      const value = (index === null ? newestValue(values) : values[index]) ?? null;
      setText(this.rows.children[i].lastChild, value === null ? NO_VALUE : formatReading(value));
    });
  }
}

/** Return the labels of a time axis. A label that would extend beyond the right edge is left out. */
function timeLabels(plot, times, step) {
  const halfLabel = step < 60 ? 24 : 15;  // CSS pixels, of 08:15:30 and 08:15
  const rightmost = plot.bbox.width / devicePixelRatio + RIGHT_PADDING - halfLabel;
  return times.map(time => (plot.valToPos(time, "x") > rightmost ? "" : formatAxisTime(time, step)));
}

/** Return the newest of the last five values, or null if the line ended before them. */
function newestValue(values) {
  return values.slice(-5).findLast(value => value !== null) ?? null;
}
