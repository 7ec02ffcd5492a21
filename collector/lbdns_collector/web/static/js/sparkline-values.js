// The values of the sparklines: those that the page has received and, for the time before the page was opened, those in
// the server's history. One request fetches the lines of all members that a table shows.

import { fetchJsonIfPresent } from "./fetch-api.js";

const MAX_MEMBERS = 50;  // of one request; the server allows no more
const STEP = 2;  // seconds; the server has values of each second, but a line is only 64 pixels wide
const RETRY_DELAY = 5000;  // milliseconds after a request that failed, for example because the server was busy
const MAX_REPEATED = 15;  // seconds between the newest recorded value, which is a few seconds old, and the first received

export class SparklineValues {
  /** The lines show the last ``seconds`` seconds. */
  constructor(recentValues, model, seconds) {
    Object.assign(this, { recentValues, model, seconds });
    this.openedAt = null;  // Unix seconds, by this computer's clock
    this.past = new Map();  // pool -> Map(member -> {metric: a value for each second before ``openedAt``})
  }

  /** Request the history of ``metrics`` for those of the members ``names`` for which nothing has been requested. */
  request(pool, names, metrics, now) {
    this.openedAt ??= now;
    const { serverTime, statusAge, server } = this.model;
    if (!metrics.length || now - this.openedAt > this.seconds || !server.history?.on || serverTime === null) return;
    let members = this.past.get(pool);
    if (!members) this.past.set(pool, members = new Map());
    const missing = names.filter(name => !members.has(name)).slice(0, MAX_MEMBERS);
    if (!missing.length) return;
    for (const name of missing) members.set(name, {});
    const end = this.openedAt - now + serverTime + statusAge;  // by the server's clock
    this.fetch(pool, missing, metrics, end, members).catch(() => {
      // Until a later request succeeds, the lines begin when the page was opened
      setTimeout(() => missing.forEach(name => members.delete(name)), RETRY_DELAY);
    });
  }

  async fetch(pool, names, metrics, end, members) {
    const start = end - this.seconds;
    const query = new URLSearchParams({ pool, from: start.toFixed(0), to: end.toFixed(0), step: STEP });
    for (const name of names) query.append("member", name);
    for (const metric of metrics) query.append("metric", metric);
    const found = await fetchJsonIfPresent(`/api/v1/plots?${query}`);
    if (!found) return;
    const seconds = Array.from({ length: this.seconds }, (_, i) => found.times.findLastIndex(time => time <= start + i));
    const newest = (found.times.at(-1) ?? 0) + MAX_REPEATED - start;
    for (const name of names) {
      members.set(name, Object.fromEntries(metrics.map(metric => {
        const values = found.metrics[metric]?.series[name] ?? [];
        return [metric, seconds.map((at, i) => (i > newest ? null : values[at] ?? null))];
      })));
    }
  }

  /** Return a member's values of the last seconds up to ``now``, one per second, the newest last; null: unknown. */
  of(pool, metric, name, now) {
    const { times, series: { [name]: recent } } = this.recentValues.since(now - this.seconds, pool, metric, [name]);
    const past = this.past.get(pool)?.get(name)?.[metric]?.slice(Math.round(now - this.openedAt));
    if (!past?.length) return recent;
    const known = recent.findIndex(value => value !== null);  // the first rates need two statuses
    const gap = Math.round((known < 0 ? now : times[known]) - this.openedAt);
    const repeated = new Array(Math.max(0, Math.min(gap, MAX_REPEATED))).fill(past.at(-1));
    return [...past, ...repeated, ...known < 0 ? [] : recent.slice(known)].slice(-this.seconds);
  }
}
