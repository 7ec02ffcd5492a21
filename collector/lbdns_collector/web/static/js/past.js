// The server's history for one plot, with what came since at its end.

import { ask } from "./feed.js";

const POINTS = 600;
const LEAST = 10;  // seconds between two questions for the same plot
const LIVE_END = 3600;  // seconds: over longer spans single values would be noise among means
const AGAIN = 60_000;  // milliseconds after which a server that has no history is asked again

let missingUntil = 0;  // performance.now(); all plots share what one of them found out

/** Whether the server is known to keep no history: it said so of itself, or to a question. */
export const missing = ({ history }) => history?.on === false || performance.now() < missingUntil;

export class Past {
  constructor(ring, model) {
    this.ring = ring;
    this.model = model;
    this.key = "";
    this.told = null;  // the server's answer
    this.asked = -Infinity;
    this.error = "";
  }

  /** {times, series} over ``span`` seconds up to ``now``, for the members ``names`` (all series if null); ``known``:
   * whether there is something to ask for. */
  get(pool, metric, names, span, now, known, changed) {
    const key = JSON.stringify([pool, metric, names, span]);
    if (key !== this.key) {
      this.key = key;
      this.told = null;
      this.asked = -Infinity;
    }
    const rest = Math.max(LEAST, this.told?.step_s ?? 0, span / 100) * 1000;
    if (known && !missing(this.model.server) && performance.now() - this.asked > rest) {
      this.asked = performance.now();
      this.fetch(pool, metric, names, span, now).then(changed);
    }
    return this.join(pool, metric, names, span, now);
  }

  async fetch(pool, metric, names, span, now) {
    const { key } = this;
    const query = new URLSearchParams({ metric, from: (now - span).toFixed(0), to: now.toFixed(0), points: POINTS });
    if (pool) query.set("pool", pool);
    if (pool) for (const name of names) query.append("member", name);
    try {
      const told = await ask(`/api/v1/history?${query}`);
      this.error = "";
      const promised = this.model.server.history?.on === true;  // but nothing has been written yet
      if (told === null && !promised) missingUntil = performance.now() + AGAIN;
      else if (told && key === this.key) this.told = told;
    } catch (error) {
      this.error = error.message;
    }
  }

  join(pool, metric, names, span, now) {
    const old = this.told ?? { times: [], series: {} };
    const last = old.times.at(-1) ?? now - span;
    const live = !this.told || span <= LIVE_END;
    const wanted = names ?? [...new Set([...Object.keys(old.series), ...this.ring.names(metric)])];
    const fresh = live ? this.ring.since(last, pool, metric, wanted) : { times: [], series: {} };
    // Rates aren't known at once: no gap for that between what was and what is
    const began = fresh.times.findIndex((_, i) => wanted.some(name => fresh.series[name]?.[i] !== null));
    fresh.times.splice(0, began < 0 ? fresh.times.length : began);
    for (const name in fresh.series) fresh.series[name].splice(0, fresh.series[name].length - fresh.times.length);
    const none = length => new Array(length).fill(null);
    const series = {};
    for (const name of wanted) {
      const before = old.series[name] ?? none(old.times.length);
      series[name] = [...before, ...(fresh.series[name] ?? none(fresh.times.length))];
    }
    return { times: [...old.times, ...fresh.times], series };
  }
}
