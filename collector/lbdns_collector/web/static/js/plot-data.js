// The data of one plot: the history recorded by the server, followed by the values received since then.

import { fetchJsonIfPresent } from "./fetch-api.js";

const POINTS = 600;
const MIN_FETCH_INTERVAL = 10;  // seconds between two requests for the same plot
const MAX_LIVE_SPAN = 3600;  // seconds: in longer plots the history has means, next to which single values look like noise
const RETRY_DELAY = 60_000;  // milliseconds until history is requested again from a server that had none

let retryAt = 0;  // performance.now(); shared, so that only one plot sends a request if there is no history

/** Report whether the server records no history, as its status or its last response says. */
export const hasNoHistory = ({ history }) => history?.on === false || performance.now() < retryAt;

export class PlotData {
  constructor(recentValues, model) {
    this.recentValues = recentValues;
    this.model = model;
    this.query = "";
    this.history = null;  // the server's response to ``query``
    this.fetchedAt = -Infinity;
    this.error = "";
  }

  /** Return the known {times, series} for the last ``span`` seconds before ``now``, and call ``onChange`` when more data
   * arrives. ``names`` are the members; null means all series of the server. No history is requested if ``isAvailable``
   * is false. */
  get({ pool, metric, names, span, now, isAvailable, onChange }) {
    const query = JSON.stringify([pool, metric, names, span]);
    if (query !== this.query) {
      this.query = query;
      this.history = null;
      this.fetchedAt = -Infinity;
    }
    const interval = Math.max(MIN_FETCH_INTERVAL, this.history?.step_s ?? 0, span / 100) * 1000;
    if (isAvailable && !hasNoHistory(this.model.server) && performance.now() - this.fetchedAt > interval) {
      this.fetchedAt = performance.now();
      this.fetch(pool, metric, names, span, now).then(onChange);
    }
    return this.join(pool, metric, names, span, now);
  }

  async fetch(pool, metric, names, span, now) {
    const { query } = this;
    const parameters = new URLSearchParams({ metric, from: (now - span).toFixed(0), to: now.toFixed(0), points: POINTS });
    if (pool) parameters.set("pool", pool);
    if (pool) for (const name of names) parameters.append("member", name);
    try {
      const history = await fetchJsonIfPresent(`/api/v1/history?${parameters}`);
      this.error = "";
      const isRecording = this.model.server.history?.on === true;  // nothing may have been written yet
      if (history === null && !isRecording) retryAt = performance.now() + RETRY_DELAY;
      else if (history && query === this.query) this.history = history;
    } catch (error) {
      this.error = error.message;
    }
  }

  join(pool, metric, names, span, now) {
    const past = this.history ?? { times: [], series: {} };
    const pastEnd = past.times.at(-1) ?? now - span;
    const isLive = !this.history || span <= MAX_LIVE_SPAN;
    const wanted = names ?? [...new Set([...Object.keys(past.series), ...this.recentValues.serverNames(metric)])];
    const recent = isLive ? this.recentValues.since(pastEnd, pool, metric, wanted) : { times: [], series: {} };
    // The first recent values may lack rates. Leave them out, because they would look like a gap in the plot
    const start = recent.times.findIndex((_, i) => wanted.some(name => recent.series[name]?.[i] !== null));
    recent.times.splice(0, start < 0 ? recent.times.length : start);
    for (const name in recent.series) recent.series[name].splice(0, recent.series[name].length - recent.times.length);
    const nulls = length => new Array(length).fill(null);
    const series = {};
    for (const name of wanted) {
      const before = past.series[name] ?? nulls(past.times.length);
      series[name] = [...before, ...(recent.series[name] ?? nulls(recent.times.length))];
    }
    return { times: [...past.times, ...recent.times], series };
  }
}
