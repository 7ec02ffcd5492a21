// The panel "Servers and demand": what lbdns-scaler does and why, demand and servers over time, and the servers by stage of
// life. The panel is hidden unless the server's configuration names a scaler.

import { fillList, make, setHidden, setText } from "./dom-elements.js";
import { fetchJson } from "./fetch-api.js";
import { LineChart } from "./line-chart.js";
import { ProblemList, updateCurrent } from "./problem-panel.js";
import { figuresOf, headline, roundsOverTime, scalerProblems } from "./scaler-status.js";
import { ServerTable } from "./server-table.js";
import { formatDuration } from "./value-format.js";

const REFRESH_INTERVAL = 2000;  // milliseconds
const PATH = "/api/v1/scaler";
const MAX_PROBLEMS = 6;

export class ScalerPanel {
  /** ``link`` is the link to the panel in the page's navigation. */
  constructor(element, link, model) {
    Object.assign(this, { element, link, model, status: null, error: "", failedSince: null });
    this.isVisible = this.isFetching = false;
  }

  /** Show or hide the panel, as the newest status of the server says. */
  update() {
    const isConfigured = this.model.server.scaler === true;
    if (isConfigured && !this.table) this.build();
    setHidden(this.element, !isConfigured);
    setHidden(this.link, !isConfigured);
  }

  build() {
    const title = make("h2", "", "Servers and demand");
    title.id = "scaler-title";
    this.farm = make("span", "quiet");
    this.headline = make("p", "headline");
    this.figures = make("dl", "figures small");
    this.problems = new ProblemList(MAX_PROBLEMS, "more problem", updateCurrent);
    this.demandChart = new LineChart("Requests/s", { isStepped: true });
    this.serverChart = new LineChart("Servers", { isStepped: true });
    this.table = new ServerTable();
    const charts = make("div", "charts", this.demandChart.element, this.serverChart.element);
    this.result = make("div", "", this.headline, this.figures, charts, ...this.table.elements);
    this.result.hidden = true;
    this.element.append(make("div", "panel-head", title, this.farm), ...this.problems.elements, this.result);
    this.showProblems();
    new IntersectionObserver(entries => {
      this.isVisible = entries.at(-1).isIntersecting;  // the last entry is the newest
      if (this.isVisible && !this.status) this.refresh();
    }).observe(this.element);
    setInterval(() => this.refresh(), REFRESH_INTERVAL);
    document.addEventListener("visibilitychange", () => this.refresh());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const chart of [this.demandChart, this.serverChart]) chart.build();
    });
  }

  async refresh() {
    if (!this.isVisible || document.hidden || this.isFetching) return;
    this.isFetching = true;
    try {
      this.status = await fetchJson(PATH);
      this.error = "";
      this.failedSince = null;
    } catch (error) {
      this.error = error.message;
      this.failedSince ??= this.now;
    } finally {
      this.isFetching = false;
    }
    this.showProblems();
    if (!this.error) this.show();
  }

  /** The time by the server's clock, in Unix seconds. */
  get now() {
    const { serverTime, statusAge } = this.model;
    return serverTime === null ? Date.now() / 1000 : serverTime + statusAge;
  }

  showProblems() {
    this.problems.update(scalerProblems(this.status, this.error, this.failedSince), this.now);
  }

  show() {
    const { status } = this;
    setHidden(this.result, false);
    setText(this.farm, `farm ${status.farm}`);
    setText(this.headline, headline(status));
    fillList(this.figures, figuresOf(status));
    this.table.update(status);
    this.drawCharts();
  }

  drawCharts() {
    const { times, range, demand, capacity, inService, recommended } = roundsOverTime(this.status, this.now);
    const span = formatDuration(Math.round(range[1] - range[0]));
    const draw = (chart, what, lines) => chart.draw({
      times: times.length ? times : [range[1]], lines: times.length ? lines : lines.map(line => ({ ...line, values: [null] })),
      band: null, events: [], range, maximum: 0, description: `${what}, last ${span}`,
    });
    draw(this.demandChart, "Requests/s: demand, and the capacity of the servers in service", [
      { name: "demand", label: "demand", slot: 0, values: demand },
      { name: "capacity", label: "capacity in service", slot: 6, values: capacity },
    ]);
    draw(this.serverChart, "Servers in service, and recommended by the policy", [
      { name: "in service", label: "in service", slot: 0, values: inService },
      { name: "recommended", label: "recommended", slot: 6, values: recommended },
    ]);
  }
}
