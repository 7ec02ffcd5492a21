// What came since the page was opened, a value a second: all that plots have where the server keeps no history, and
// the newest end of them where it does.

const LONGEST = 3600;  // values: an hour
const BUDGET = 6e6;  // numbers in all, 24 MB: with a thousand members that is five minutes
const METRICS = 20;  // a member has about so many series

export class Ring {
  constructor() {
    this.series = new Map();  // pool -> Map(member -> {metric: Float32Array}); the server's own are those of pool ""
    this.times = new Float64Array(0);
    this.next = 0;  // where the next value goes
    this.filled = 0;
  }

  /** Keep what the model says at ``now``, Unix seconds. */
  take(model, now) {
    if (!this.times.length) {
      const members = model.pools.reduce((sum, pool) => sum + pool.members.length, 1);
      this.times = new Float64Array(Math.min(LONGEST, Math.floor(BUDGET / (members * METRICS))));
    }
    const slot = this.next;
    this.forget(slot);
    this.times[slot] = now;
    this.next = (slot + 1) % this.times.length;
    this.filled = Math.min(this.filled + 1, this.times.length);
    const { queries, types, rcodes } = model.rates;
    this.put(slot, this.of("", "queries"), "queries", queries);
    for (const type in types) this.put(slot, this.of("", type), "types", types[type]);
    for (const rcode in rcodes) this.put(slot, this.of("", rcode), "rcodes", rcodes[rcode]);
    const { waited } = model;
    for (const pool of model.pools) {
      for (const member of pool.members) {
        const series = this.of(pool.name, member.name);
        for (const metric in member.metrics) this.put(slot, series, metric, member.metrics[metric]);
        this.put(slot, series, "score", member.score);
        this.put(slot, series, "answers", member.rate);
        this.put(slot, series, "usable", member.state === "usable" ? 1 : 0);
        if (member.age_s !== null) this.put(slot, series, "age_s", member.age_s + waited);
      }
    }
  }

  forget(slot) {
    for (const members of this.series.values()) {
      for (const series of members.values()) for (const metric in series) series[metric][slot] = NaN;
    }
  }

  of(pool, name) {
    let members = this.series.get(pool);
    if (!members) this.series.set(pool, members = new Map());
    let series = members.get(name);
    if (!series) members.set(name, series = {});
    return series;
  }

  put(slot, series, metric, value) {
    if (typeof value !== "number") return;
    series[metric] ??= new Float32Array(this.times.length).fill(NaN);
    series[metric][slot] = value;
  }

  /** The names that have a series of the server's ``metric`` (types, rcodes). */
  names(metric) {
    return [...this.series.get("") ?? []].filter(([, series]) => metric in series).map(([name]) => name);
  }

  /** {times, series} of what is newer than ``from``, as the server's history tells it. */
  since(from, pool, metric, names) {
    const length = this.times.length;
    const slots = [];
    for (let i = this.filled; i > 0; i -= 1) {
      const slot = (this.next - i + length) % length;
      if (this.times[slot] > from) slots.push(slot);
    }
    const series = {};
    for (const name of names) {
      const values = this.series.get(pool)?.get(name)?.[metric];
      series[name] = slots.map(slot => (values && !Number.isNaN(values[slot]) ? values[slot] : null));
    }
    return { times: slots.map(slot => this.times[slot]), series };
  }
}
