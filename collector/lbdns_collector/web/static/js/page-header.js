// The page header: state of the connection, statistics of the server, and a banner while there is no connection.

import { fillList, setAttribute, setClass, setHidden, setText } from "./dom-elements.js";
import { knownTime } from "./ended-problems.js";
import { formatDuration, formatNumber, formatTime, pluralize } from "./value-format.js";
import { metricLabel } from "./metric-labels.js";

const MAX_STATUS_AGE = 10;  // seconds after which the page counts as out of date, even if the stream is open

const LINK_TEXTS = {
  connecting: "connecting",
  live: "live",
  polling: "polling every 2 s",
  disconnected: "no connection",
};

export class PageHeader {
  constructor({ connection, health, disconnected, server, version }, model) {
    Object.assign(this, { connection, health, disconnected, server, version, model });
    this.linkState = "connecting";
  }

  setLink(state) {
    this.linkState = state;
    this.tick();
  }

  /** The state to show: an open stream that sends no status counts as disconnected. */
  get shownState() {
    return this.linkState === "live" && this.model.statusAge > MAX_STATUS_AGE ? "disconnected" : this.linkState;
  }

  get isConnected() {
    return this.shownState !== "disconnected";
  }

  /** Call once a second and when the link changes. */
  tick() {
    const { receivedAt } = this.model;
    const state = this.shownState;
    const isDisconnected = !this.isConnected;
    setClass(this.connection, `link ${state}`);
    setText(this.connection, LINK_TEXTS[state]);
    setHidden(this.disconnected, !isDisconnected);
    // A fixed time, not an age: a screen reader would read out every change of this alert
    const lastUpdate = receivedAt ? ` This page was last updated at ${formatTime(this.updatedAt)}.` : "";
    setText(this.disconnected, isDisconnected ? `No connection to the server.${lastUpdate}` : "");
  }

  /** Show whether all is well now, and whether it was in the last hour. The page has the events of the last
   * ``knownSpan`` seconds; the number is not positive if the page has none. */
  setProblems(problems, ended, knownSpan) {
    const count = problems.filter(({ isPlanned }) => !isPlanned).length;
    const found = count ? pluralize(count, "problem") : "no problems";
    const span = knownSpan > 0 ? ` in the last ${knownTime(knownSpan)}` : "";
    setText(this.health, ended.length ? `${found} now, ${ended.length} ended${span}`
      : count || !span ? `${found} now` : `${found} now or${span}`);
    setClass(this.health, `health ${count ? "trouble" : "well"}`);
    setAttribute(this.health, "href", problems.length || ended.length ? "#problems" : null);
    setHidden(this.health, false);
  }

  update() {
    this.updatedAt = Date.now() / 1000;
    const { server, rates, statusAge, adaptive } = this.model;
    const entries = [
      ["queries/s", formatNumber(rates.queries, 1, true)],
      [server.queries === 1 ? "query" : "queries", formatNumber(server.queries), "minor"],
      ["up", formatDuration((server.uptime_s ?? NaN) + statusAge)],
      ["time", formatTime(this.updatedAt)],
    ];
    if (server.workers > 1) entries.push(["processes", formatNumber(server.workers)]);
    if (server.fault) entries.push(["health", "not healthy", "warn", server.fault]);
    if (server.history && hasFault(server.history)) entries.push(historyEntry(server.history));
    if (adaptive) entries.push(adaptiveEntry(adaptive));
    fillList(this.server, entries);
    setText(this.version, server.version ? `lbdns ${server.version}` : "");
  }
}

const hasFault = ({ on, ok }) => !on || ok === false;

function historyEntry({ on, error, dropped }) {
  if (!on) return ["history", "off"];
  return ["history", "not recording", "warn", `${error || "cannot be written"}; ${pluralize(dropped ?? 0, "value")} dropped`];
}

function adaptiveEntry({ score, trials, accepted, gain, weights }) {
  const weightTexts = Object.entries(weights ?? {}).map(([metric, weight]) => `${metricLabel(metric)} ${formatNumber(weight, 2)}`);
  return ["adaptive score", `${score}: response times ${formatNumber(100 * gain, 1)} % shorter`, "",
    `${accepted} of ${pluralize(trials, "trial")} accepted; weights: ${weightTexts.join(", ")}`];
}
