// A ring buffer of the values received since the page was opened, one per second and series. The plots use these values
// for the time after the end of the recorded history, and for servers that record no history.

import { isOld } from "./status-model.js";

const MAX_TIMES = 3600;  // one hour
const MAX_VALUES = 6e6;  // over all series, 24 MB: five minutes with a thousand members
const METRICS_PER_MEMBER = 20;  // an estimate

export class RecentValues {
  constructor() {
    this.series = new Map();  // pool -> Map(member -> {metric: Float32Array}); the server's own series are in pool ""
    this.times = new Float64Array(0);
    this.next = 0;  // the slot for the next values
    this.filled = 0;
  }

  /** Record the model's current values at ``now``, in Unix seconds. */
  record(model, now) {
    if (!this.times.length) {
      const members = model.pools.reduce((sum, pool) => sum + pool.members.length, 1);
      this.times = new Float64Array(Math.min(MAX_TIMES, Math.floor(MAX_VALUES / (members * METRICS_PER_MEMBER))));
    }
    const slot = this.next;
    this.clearSlot(slot);
    this.times[slot] = now;
    this.next = (slot + 1) % this.times.length;
    this.filled = Math.min(this.filled + 1, this.times.length);
    const { queries, types, rcodes } = model.rates;
    this.setValue(slot, this.seriesOf("", "queries"), "queries", queries);
    for (const type in types) this.setValue(slot, this.seriesOf("", type), "types", types[type]);
    for (const rcode in rcodes) this.setValue(slot, this.seriesOf("", rcode), "rcodes", rcodes[rcode]);
    const { statusAge } = model;
    for (const pool of model.pools) {
      for (const member of pool.members) {
        const series = this.seriesOf(pool.name, member.name);
        if (!isOld(member)) {  // their values are old; the history omits them too
          for (const metric in member.metrics) this.setValue(slot, series, metric, member.metrics[metric]);
          this.setValue(slot, series, "score", member.score);
        }
        this.setValue(slot, series, "answers", member.rate);
        this.setValue(slot, series, "usable", member.state === "usable" ? 1 : 0);
        if (member.age_s !== null) this.setValue(slot, series, "age_s", member.age_s + statusAge);
      }
    }
  }

  clearSlot(slot) {
    for (const members of this.series.values()) {
      for (const series of members.values()) for (const metric in series) series[metric][slot] = NaN;
    }
  }

  seriesOf(pool, name) {
    let members = this.series.get(pool);
    if (!members) this.series.set(pool, members = new Map());
    let series = members.get(name);
    if (!series) members.set(name, series = {});
    return series;
  }

  setValue(slot, series, metric, value) {
    if (typeof value !== "number") return;
    series[metric] ??= new Float32Array(this.times.length).fill(NaN);
    series[metric][slot] = value;
  }

  /** Return the names with a series of one of the server's own metrics (types, rcodes). */
  serverNames(metric) {
    return [...this.series.get("") ?? []].filter(([, series]) => metric in series).map(([name]) => name);
  }

  /** Return {times, series} of the values after ``start``, in the format of the server's history. */
  since(start, pool, metric, names) {
    const length = this.times.length;
    const slots = [];
    for (let i = this.filled; i > 0; i -= 1) {
      const slot = (this.next - i + length) % length;
      if (this.times[slot] > start) slots.push(slot);
    }
    const series = {};
    for (const name of names) {
      const values = this.series.get(pool)?.get(name)?.[metric];
      series[name] = slots.map(slot => (values && !Number.isNaN(values[slot]) ? values[slot] : null));
    }
    return { times: slots.map(slot => this.times[slot]), series };
  }
}
