// The data of all plots: the history recorded by the server, followed by the values received since then. One request
// fetches the history of all plots; the server combines the members that have no line of their own.

import { fetchJsonIfPresent } from "./fetch-api.js";
import { averageByStep, concatenate, summarize } from "./plot-values.js";

const MIN_FETCH_INTERVAL = 10;  // seconds between two requests for the same plots
const RETRY_DELAY = 60_000;  // milliseconds until history is requested again from a server that had none
const EMPTY = { times: [], series: {}, others: {}, step: 1 };
/** Metrics that count events: of several members, the plots show the sum */
const SUMS = new Set(["answers"]);

export class PlotData {
  constructor(recentValues, model, onChange) {
    Object.assign(this, { recentValues, model, onChange });
    this.key = "";
    this.history = new Map();  // plot id -> {times, series, others, step}
    this.requestedAt = new Map();  // plot id -> performance.now()
    this.pending = new Set();  // plot ids
    this.error = "";
    this.retryAt = 0;  // performance.now()
  }

  /** Report whether the server records no history, as its status or its last response says. */
  get hasNoHistory() {
    return this.model.server.history?.on === false || performance.now() < this.retryAt;
  }

  /** Report whether a plot waits for its history. */
  isLoading(source) {
    return this.pending.has(source.id) && !this.history.has(source.id);
  }

  /** Request the history of ``sources`` [{id, metric, isServer}] where it is missing or old. ``view`` is {pool, names,
   * key, start, end, step, isLive}. */
  load(view, sources) {
    if (view.key !== this.key) {
      this.key = view.key;
      for (const cache of [this.history, this.requestedAt, this.pending]) cache.clear();
      this.error = "";
    }
    if (this.hasNoHistory) return;
    const interval = 1000 * Math.max(MIN_FETCH_INTERVAL, view.step, (view.end - view.start) / 100);
    const isOld = (source, age) => {
      if (this.pending.has(source.id) || !view.isLive && this.isComplete(source, view)) return false;
      return performance.now() - (this.requestedAt.get(source.id) ?? -Infinity) > age;
    };
    if (!sources.some(source => isOld(source, interval))) return;
    this.fetch(view, sources.filter(source => isOld(source, interval / 2)));
  }

  isComplete({ id }, { end, step }) {
    return this.history.has(id) && this.history.get(id).requested > end + step + MIN_FETCH_INTERVAL;
  }

  async fetch(view, sources) {
    const query = new URLSearchParams({ from: view.start.toFixed(0), to: view.end.toFixed(0), step: view.step });
    const ofMembers = sources.filter(({ isServer }) => !isServer);
    if (ofMembers.length) query.set("pool", view.pool.name);
    for (const name of ofMembers.length ? view.names : []) query.append("member", name);
    for (const { metric, isServer } of sources) query.append(isServer ? "server" : "metric", metric);
    for (const { id } of sources) {
      this.requestedAt.set(id, performance.now());
      this.pending.add(id);
    }
    const requested = Date.now() / 1000;
    let [found, error] = [null, ""];
    try {
      found = await fetchJsonIfPresent(`/api/v1/plots?${query}`);
      const isRecording = this.model.server.history?.on === true;  // nothing may have been written yet
      if (found === null && !isRecording) this.retryAt = performance.now() + RETRY_DELAY;
    } catch (failure) {
      error = failure.message;
    }
    if (view.key !== this.key) return;  // the viewer has selected something else
    this.error = error;
    for (const { id, metric, isServer } of sources) {
      this.pending.delete(id);
      if (!found) continue;
      const { series = {}, others = {} } = (isServer ? { series: found.server[metric] } : found.metrics[metric]) ?? {};
      this.history.set(id, { times: found.times, series, others, step: found.step_s, requested });
    }
    this.onChange();
  }

  /** Return the known {times, series, others} of a plot. */
  join({ id, metric, isServer }, view) {
    const past = this.history.get(id) ?? { ...EMPTY, step: view.step };
    const pastEnd = past.times.length ? past.times.at(-1) + (past.step > 1 ? past.step - 0.001 : 0) : view.start;
    const pool = isServer ? "" : view.pool.name;
    const names = isServer
      ? [...new Set([...Object.keys(past.series), ...this.recentValues.serverNames(metric)])] : view.names;
    const recent = this.recent(pastEnd, view, pool, metric, names, past.step);
    const [before, after] = [past.times.length, recent.times.length];
    const series = {};
    for (const name of names) series[name] = concatenate(past.series[name], before, recent.series[name], after);
    const others = {};
    for (const key of new Set([...Object.keys(past.others), ...Object.keys(recent.others)])) {
      others[key] = concatenate(past.others[key], before, recent.others[key], after);
    }
    return { times: [...past.times, ...recent.times], series, others };
  }

  /** Return the values received after ``start``, averaged over steps like those of the history. */
  recent(start, view, pool, metric, names, step) {
    if (start >= view.end) return EMPTY;
    const chosen = new Set(names);
    const hidden = pool ? view.pool.members.filter(({ name }) => !chosen.has(name)).map(({ name }) => name) : [];
    const found = this.recentValues.since(start, pool, metric, [...names, ...hidden]);
    // The first recent values may lack rates. Leave them out, because they would look like a gap in the plot
    const first = found.times.findIndex((_, i) => names.some(name => found.series[name][i] !== null));
    const last = found.times.findLastIndex(time => time <= view.end);
    const cut = values => values.slice(first < 0 ? values.length : first, last + 1);
    const times = cut(found.times);
    const series = Object.fromEntries(names.map(name => [name, cut(found.series[name])]));
    const summary = hidden.length ? summarize(times, hidden.map(name => cut(found.series[name])), SUMS.has(metric)) : {};
    const all = averageByStep({ times, series: { ...series } }, step);
    return { ...all, others: averageByStep({ times, series: summary }, step).series };
  }
}
