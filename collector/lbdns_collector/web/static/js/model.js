// The newest status and what follows from it: rates from counts, sums over members. Fields that an older server
// doesn't tell are filled in, so that nobody else has to ask whether they are there.

const WINDOW = 3;  // seconds over which counts are turned into rates; shorter ones flicker
const STEP = 0.9;  // seconds at least between two counts that are kept

const list = value => (Array.isArray(value) ? value : []);
const table = value => (value && typeof value === "object" ? value : {});

function member(told) {
  return {
    ...told,
    addresses: list(told.addresses),
    reason: told.reason || told.alarm || "",
    guard: told.guard || "",
    metrics: table(told.metrics),
    overrides: list(told.overrides),
    parts: table(told.score_parts),
    capacityShare: told.capacity_share ?? null,
    rate: null,
  };
}

function pool(told) {
  return { ...told, members: list(told.members).map(member), policies: table(told.policies), shadow: list(told.shadow) };
}

export class Model {
  constructor() {
    this.pools = [];
    this.server = {};
    this.adaptive = null;
    this.at = 0;  // milliseconds, performance.now() when it came
    this.rates = { queries: null, types: {}, rcodes: {} };  // per second
    this.counts = [];  // some earlier ones, oldest first
  }

  /** Seconds since the newest status came. */
  get waited() {
    return (performance.now() - this.at) / 1000;
  }

  pool(name) {
    return this.pools.find(pool => pool.name === name);
  }

  take(status, at) {
    this.at = at;
    this.pools = list(status.pools).map(pool);
    this.server = table(status.server);
    this.adaptive = status.adaptive ?? null;
    this.derive();
    for (const pool of this.pools) sum(pool);
  }

  derive() {
    const { uptime_s: uptime, queries = 0, types, rcodes } = this.server;
    const now = { uptime, server: { queries }, types: table(types), rcodes: table(rcodes), pools: {} };
    for (const { name, members } of this.pools) {
      now.pools[name] = Object.fromEntries(members.map(member => [member.name, member.answers]));
    }
    const newest = this.counts.at(-1);
    if (newest && uptime < newest.uptime) this.counts = [];  // another run of the program counts from 0
    while (this.counts.length > 1 && this.counts[1].uptime <= uptime - WINDOW) this.counts.shift();
    const before = this.counts[0];
    const seconds = before ? uptime - before.uptime : 0;
    this.rates = { queries: null, types: {}, rcodes: {} };
    if (seconds >= STEP) {
      this.rates.queries = rate(before.server, now.server, seconds).queries;
      this.rates.types = rate(before.types, now.types, seconds);
      this.rates.rcodes = rate(before.rcodes, now.rcodes, seconds);
      for (const { name, members } of this.pools) {
        const rates = rate(before.pools[name] ?? {}, now.pools[name], seconds);
        for (const member of members) member.rate = rates[member.name] ?? null;
      }
    }
    if (!this.counts.length || uptime - this.counts.at(-1).uptime >= STEP) this.counts.push(now);
  }
}

/** What each count grew by a second; one that was not there before began at 0. */
function rate(before, now, seconds) {
  const found = {};
  for (const key in now) found[key] = Math.max(0, (now[key] - (before[key] ?? 0)) / seconds);
  return found;
}

function sum(pool) {
  pool.states = {};
  pool.rate = pool.requests = null;
  pool.usable = pool.topScore = pool.topShare = 0;
  const metrics = new Set();
  const parts = new Set();
  for (const member of pool.members) {
    const word = stateWord(member);
    pool.states[word] = (pool.states[word] ?? 0) + 1;
    pool.usable += word === "usable" || word === "held back" ? 1 : 0;
    if (member.rate !== null) pool.rate = (pool.rate ?? 0) + member.rate;
    const requests = member.metrics.requests_per_s;
    if (typeof requests === "number" && member.state === "usable") pool.requests = (pool.requests ?? 0) + requests;
    pool.topScore = Math.max(pool.topScore, member.score ?? 0);
    pool.topShare = Math.max(pool.topShare, member.share ?? 0, member.capacityShare ?? 0);
    for (const metric in member.metrics) metrics.add(metric);
    for (const metric in member.parts) parts.add(metric);
  }
  pool.metrics = metrics;
  pool.parts = parts;
}

/** A member's state in one word or two: what a guard rail does to a usable one shows here too. */
export function stateWord({ state, guard }) {
  if (state !== "usable" || !guard) return state;
  return guard.startsWith("quarantined") ? "set aside" : "held back";
}
