// The plots panel: answers and scores by member, queries by type, responses by rcode, and two metrics the viewer chooses.

import { make, makeLabel, makeSelect, setHidden, setOptions, setText } from "./dom-elements.js";
import { LineChart } from "./line-chart.js";
import { metricLabel, metricUnit, sortMetrics } from "./metric-labels.js";
import { PlotData, hasNoHistory } from "./plot-data.js";
import { readSetting, saveSetting } from "./url-settings.js";
import { pluralize } from "./value-format.js";

const SPANS = [[300, "5 min"], [3600, "1 h"], [86_400, "1 day"], [2_592_000, "30 days"]];
const DERIVED_METRICS = ["answers", "score", "usable", "age_s"];  // available for every member, whatever it reports
const LONG_SPAN_INTERVAL = 5;  // seconds between two drawings of longer spans, in which a second is less than a pixel

export class PlotsPanel {
  constructor(element, { model, recentValues, plottedMembers, events }) {
    Object.assign(this, { model, recentValues, plottedMembers, events });
    this.span = Number(readSetting("span", 300));
    this.poolName = readSetting("plots", "");
    this.ticks = 0;
    const title = make("h2", "", "Plots");
    title.id = "plots-title";
    this.poolSelect = makeSelect([], "");
    this.poolSelect.addEventListener("change", () => {
      this.poolName = this.poolSelect.value;
      saveSetting("plots", this.poolName);
      this.draw();
    });
    this.poolLabel = makeLabel("Pool", this.poolSelect);
    this.note = make("p", "note quiet");
    const head = make("div", "panel-head", title, this.poolLabel, this.makeSpanChoice(), this.note);
    const grid = make("div", "charts");
    this.plots = [
      this.makeMemberPlot("Answers/s", () => "answers"),
      this.makeMemberPlot("Score", () => "score"),
      this.makeChoicePlot("first", "requests_per_s"),
      this.makeChoicePlot("second", "busy_workers"),
      this.makeServerPlot("Queries/s by type", "types"),
      this.makeServerPlot("Responses/s by rcode", "rcodes"),
    ];
    grid.append(...this.plots.map(({ chart }) => chart.element));
    element.append(head, grid);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.plots.forEach(({ chart }) => chart.build()));
  }

  makeSpanChoice() {
    const choice = make("fieldset", "segments", make("legend", "unseen", "Time range"));
    for (const [seconds, spanText] of SPANS) {
      const radio = make("input");
      Object.assign(radio, { type: "radio", name: "span", value: seconds, checked: seconds === this.span });
      radio.addEventListener("change", () => {
        this.span = seconds;
        saveSetting("span", seconds === 300 ? "" : seconds);
        this.draw();
      });
      choice.append(make("label", "", radio, make("span", "", spanText)));
    }
    return choice;
  }

  makeMemberPlot(title, metric) {
    return { chart: new LineChart(title), data: new PlotData(this.recentValues, this.model), metric, isServer: false };
  }

  makeServerPlot(title, metric) {
    return { ...this.makeMemberPlot(title, () => metric), isServer: true };
  }

  /** Return a plot whose heading is a list of metrics to choose from. */
  makeChoicePlot(key, defaultMetric) {
    const metricSelect = makeSelect([[defaultMetric, metricLabel(defaultMetric)]], defaultMetric);
    let metric = readSetting(key, defaultMetric);
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

  /** Call once a second. */
  tick() {
    this.ticks += 1;
    if (this.span <= SPANS[0][0] || this.ticks % LONG_SPAN_INTERVAL === 0) this.draw();
  }

  draw() {
    const { pools } = this.model;
    setOptions(this.poolSelect, pools.map(({ name }) => [name, name]));
    setHidden(this.poolLabel, pools.length < 2);
    const pool = this.model.pool(this.poolName) ?? pools[0];
    if (!pool) return;
    this.poolSelect.value = pool.name;
    const lines = this.plottedMembers.lines(pool);
    const isPartial = lines.length < pool.members.length;
    setText(this.note, [
      isPartial ? `${lines.length} of ${pluralize(pool.members.length, "member")}: the members with the most answers, and the members selected in the table` : "",
      hasNoHistory(this.model.server) ? "The server records no history, so the plots begin when this page was opened" : "",
    ].filter(Boolean).join(". "));
    const now = Date.now() / 1000;
    const events = this.events().filter(event => event.time > now - this.span && (!event.pool || event.pool === pool.name));
    for (const plot of this.plots) if (plot.chart.isVisible) this.drawPlot(plot, pool, lines, events, now);
  }

  drawPlot(plot, pool, memberLines, events, now) {
    const { chart, data, isServer, metricSelect } = plot;
    const metric = plot.metric();
    if (metricSelect) {
      const metrics = sortMetrics(new Set([...DERIVED_METRICS, ...pool.metrics, metric]));
      setOptions(metricSelect, metrics.map(key => [key, metricLabel(key)]), metric);
    }
    const isAvailable = isServer ? Boolean(this.model.server.types) : DERIVED_METRICS.includes(metric) || pool.metrics.has(metric);
    const found = data.get({
      pool: isServer ? "" : pool.name, metric, names: isServer ? null : memberLines.map(line => line.name),
      span: this.span, now, isAvailable, onChange: () => this.drawPlot(plot, pool, memberLines, events, now),
    });
    const lines = isServer ? Object.keys(found.series).sort().map((name, slot) => ({ name, slot })) : memberLines;
    const unavailable = isServer ? "not provided by this server" : "not reported by any member";
    chart.setNote(data.error || (!isAvailable ? unavailable : metricSelect ? metricUnit(metric) : ""));
    const description = isServer ? chart.title.textContent : `${metricLabel(metric)} by member of pool ${pool.name}`;
    chart.draw(found.times.length ? found : { times: [now], series: {} }, lines, events, [now - this.span, now], description);
  }
}
