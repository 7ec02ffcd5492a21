// The plots panel: answers and scores by member, two metrics the viewer chooses, queries by type, responses by rcode.

import { make, makeLabel, makeSelect, setHidden, setOptions, setText } from "./dom-elements.js";
import { LineChart } from "./line-chart.js";
import { PlotData } from "./plot-data.js";
import { axisMaximum, calculate, isAvailable, isRate, metricChoices, plotLabel, plotUnit, sourceMetric } from "./plot-metrics.js";
import { PlotRange } from "./plot-range.js";
import { smooth, smoothingWindow } from "./plot-values.js";
import { readSetting, saveSetting } from "./url-settings.js";
import { formatTime, pluralize } from "./value-format.js";

const LONG_STEP_INTERVAL = 5;  // seconds between two drawings of plots in which a second is less than a pixel
const OTHERS = "\u0000others";  // the line of all members without a line of their own; no host has this name

export class PlotsPanel {
  constructor(element, { model, recentValues, plottedMembers, events }) {
    Object.assign(this, { model, plottedMembers, events });
    this.data = new PlotData(recentValues, model, () => this.draw());
    this.poolName = readSetting("plots", "");
    this.ticks = 0;
    this.cursor = this.newest = null;  // Unix seconds
    this.serverSlots = { types: new Map(), rcodes: new Map() };  // name -> number of its colour, which never changes
    const title = make("h2", "", "Plots");
    title.id = "plots-title";
    this.poolSelect = makeSelect([], "");
    this.poolSelect.addEventListener("change", () => {
      this.poolName = this.poolSelect.value;
      saveSetting("plots", this.poolName);
      this.draw();
    });
    this.poolLabel = makeLabel("Pool", this.poolSelect);
    this.range = new PlotRange(() => this.draw());
    this.cursorTime = make("span", "cursor-time");
    this.note = make("p", "note quiet");
    const head = make("div", "panel-head", title, this.poolLabel, this.range.element, this.cursorTime, this.note);
    const grid = make("div", "charts");
    this.plots = [
      this.makeMemberPlot("Answers/s", () => "answers", true),
      this.makeMemberPlot("Score", () => "score"),
      this.makeChoicePlot("first", "cpu"),
      this.makeChoicePlot("second", "requests_per_s"),
      this.makeServerPlot("Queries/s by type", "types"),
      this.makeServerPlot("Responses/s by rcode", "rcodes"),
    ];
    grid.append(...this.plots.map(({ chart }) => chart.element));
    element.append(head, grid);
    element.addEventListener("keydown", event => {
      if (event.key !== "Escape" || !this.range.fixed) return;
      event.preventDefault();  // keyboard.js then leaves the filter alone
      this.endZoom();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.plots.forEach(({ chart }) => chart.build()));
  }

  makeMemberPlot(title, metric, isStacked = false) {
    const chart = new LineChart(title, {
      isStacked,
      onZoom: (start, end) => this.range.zoom(start, end),
      onReset: () => this.range.goLive(),
      onCursor: time => {
        this.cursor = time;
        this.showTime();
      },
      onVisible: () => this.draw(),
    });
    return { chart, metric, isServer: false };
  }

  makeServerPlot(title, metric) {
    return { ...this.makeMemberPlot(title, () => metric), isServer: true };
  }

  /** Return a plot whose heading is a list of metrics to choose from. */
  makeChoicePlot(key, defaultMetric) {
    let metric = readSetting(key, defaultMetric);
    const metricSelect = makeSelect([[metric, plotLabel(metric)]], metric);
    const plot = { ...this.makeMemberPlot("", () => metric), metricSelect };
    metricSelect.setAttribute("aria-label", "Metric of this plot");
    metricSelect.addEventListener("change", () => {
      metric = metricSelect.value;
      saveSetting(key, metric === defaultMetric ? "" : metric);
      this.draw();
    });
    plot.chart.title.append(metricSelect);
    return plot;
  }

  /** Show the newest values again, if the viewer has zoomed. */
  endZoom() {
    if (this.range.fixed) this.range.goLive();
  }

  /** Call once a second. */
  tick() {
    this.ticks += 1;
    if (this.range.length <= 300 || this.ticks % LONG_STEP_INTERVAL === 0) this.draw();
  }

  draw() {
    const { pools } = this.model;
    setOptions(this.poolSelect, pools.map(({ name }) => [name, name]));
    setHidden(this.poolLabel, pools.length < 2);
    const pool = this.model.pool(this.poolName) ?? pools[0];
    if (!pool) return;
    this.poolSelect.value = pool.name;
    const lines = this.plottedMembers.lines(pool);
    this.showNote(pool, lines);
    const view = this.makeView(pool, lines);
    const shown = this.plots.filter(({ chart }) => chart.isVisible);
    const sources = this.plots.map(plot => this.source(plot, pool)).filter(source => source.isAvailable);
    if (shown.length) this.data.load(view, sources);
    const newest = shown.map(plot => this.drawPlot(plot, view)).filter(time => time !== undefined);
    if (newest.length) this.newest = Math.max(...newest);
    this.showTime();
  }

  /** Show the time of the values below the plots: the pointer's position, or the newest. */
  showTime() {
    setText(this.cursorTime, this.cursor !== null ? `at ${formatTime(this.cursor)}`
      : this.newest === null ? "" : `values of ${formatTime(this.newest)}`);
  }

  makeView(pool, lines) {
    const now = Date.now() / 1000;
    const [start, end] = this.range.bounds(now);
    const names = lines.map(({ name }) => name);
    const step = this.range.step(pool.members.length);
    const events = this.events().filter(({ time, pool: name }) => time > start && time <= end && (!name || name === pool.name));
    const key = JSON.stringify([pool.name, names, this.range.key, step]);
    return { pool, lines, names, start, end, step, events, key, isLive: !this.range.fixed };
  }

  showNote(pool, lines) {
    const hiddenCount = pool.members.length - lines.length;
    setText(this.note, [
      hiddenCount > 0 ? `${lines.length} of ${pluralize(pool.members.length, "member")}: the members with the most answers, and the members selected in the table; the others are combined` : "",
      this.data.hasNoHistory ? "The server records no history, so the plots begin when this page was opened" : "",
    ].filter(Boolean).join(". "));
  }

  source({ metric, isServer }, pool) {
    const name = sourceMetric(metric());
    const hasMetric = isServer ? Boolean(this.model.server.types) : isAvailable(metric(), pool);
    return { id: `${isServer ? "server" : "pool"} ${name}`, metric: name, isServer, isAvailable: hasMetric };
  }

  /** Draw a plot; return the time of its newest values, or undefined if it has none. */
  drawPlot(plot, view) {
    const { chart, isServer, metricSelect } = plot;
    const metric = plot.metric();
    if (metricSelect) setOptions(metricSelect, metricChoices(view.pool, metric).map(key => [key, plotLabel(key)]), metric);
    const source = this.source(plot, view.pool);
    const found = calculate(metric, this.data.join(source, view));
    const lines = isServer ? this.serverLines(metric, found.series) : this.memberLines(found, view, metric);
    const window = isServer || isRate(metric)
      ? smoothingWindow(lines.filter(({ name }) => name !== OTHERS).map(({ values }) => values), view.step, view.end - view.start) : 0;
    if (window) for (const line of lines) line.values = smooth(found.times, line.values, window);
    const isLoading = this.data.isLoading(source);
    chart.setLoading(isLoading);
    const unavailable = isServer ? "not provided by this server" : "not reported by any member";
    chart.setNote(this.data.error || (!source.isAvailable ? unavailable : [
      metricSelect ? plotUnit(metric) : "", window ? `averages of ${window} s` : "",
    ].filter(Boolean).join(", ")));
    const title = isServer ? chart.title.textContent : `${plotLabel(metric)} by member of pool ${view.pool.name}`;
    chart.draw({
      times: found.times.length ? found.times : [view.end],
      lines: found.times.length ? lines : lines.map(line => ({ ...line, values: [null] })),
      band: found.times.length && found.others.lowest ? found.others : null,
      events: view.events, range: [view.start, view.end], maximum: axisMaximum(metric), description: title,
    });
    return found.times.at(-1);
  }

  memberLines({ times, series, others }, { lines, pool }, metric) {
    const found = lines.map(line => ({ ...line, label: line.name, values: series[line.name] ?? times.map(() => null) }));
    const rest = others.sum ?? others.mean;
    const count = pool.members.length - lines.length;
    if (!rest || !count) return found;
    const label = `${pluralize(count, "other")}${isRate(metric) && others.sum ? ", sum" : ", mean"}`;
    return [...found, { name: OTHERS, label, slot: null, values: rest }];
  }

  /** Return the lines of the types or rcodes that occur in the shown range. */
  serverLines(metric, series) {
    const slots = this.serverSlots[metric];
    const names = Object.keys(series).sort();
    for (const name of names) if (!slots.has(name)) slots.set(name, slots.size);
    return names.filter(name => series[name].some(value => value > 0))
      .map(name => ({ name, label: name, slot: slots.get(name), values: series[name] }));
  }
}
