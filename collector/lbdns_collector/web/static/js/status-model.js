// The newest status of the server, completed for display: rates computed from counters, totals for each pool.
// Fields that older servers don't send get defaults here, so that no other file has to check for them.

import { formatDuration } from "./value-format.js";

const RATE_WINDOW = 3;  // seconds over which rates are computed; with a shorter window, rates would flicker
const MIN_COUNTER_GAP = 0.9;  // seconds between two kept sets of counters

const asList = value => (Array.isArray(value) ? value : []);
const asObject = value => (value && typeof value === "object" ? value : {});

/** The states in which a member's last report is old. Its values would look better than those of members that report. */
const OLD = new Set(["silent", "unknown"]);
export const isOld = ({ state }) => OLD.has(state);

/** Complete a member's status. If its last report is old, it has no current values; ``lastMetrics`` and ``lastParts`` are
 * those of the last report in any case. */
function completeMember(member) {
  const hasOld = isOld(member);
  const [lastMetrics, lastParts] = [asObject(member.metrics), asObject(member.score_parts)];
  return {
    ...member,
    addresses: asList(member.addresses),
    reason: member.reason || member.alarm || "",
    guard: member.guard || "",
    score: hasOld ? null : member.score ?? null,
    metrics: hasOld ? {} : lastMetrics,
    parts: hasOld ? {} : lastParts,
    lastMetrics,
    lastParts,
    overrides: asList(member.overrides),
    capacityShare: null,
    rate: null,
  };
}

function completePool(pool) {
  return { ...pool, members: asList(pool.members).map(completeMember), policies: asObject(pool.policies), next: asObject(pool.next), backup: pool.backup ?? null, shadow: asList(pool.shadow) };
}

export class StatusModel {
  /** If ``onlyPool`` is not empty, the model contains no other pool. */
  constructor(onlyPool = "") {
    this.onlyPool = onlyPool;
    this.pools = [];
    this.server = {};
    this.adaptive = null;
    this.rejected = [];  // senders of rejected reports
    this.shared = null;  // the state of the overrides that servers share, or null
    this.sharedAnswers = null;  // the state of the answers that servers share, or null
    this.bus = null;  // the connection to a bus from which reports come, or null
    this.receivedAt = 0;  // milliseconds, performance.now(); 0 before the first status
    this.rates = { queries: null, types: {}, rcodes: {} };  // per second
    this.counterHistory = [];  // the counters of the last few seconds, oldest first
  }

  /** Seconds since the newest status arrived. */
  get statusAge() {
    return (performance.now() - this.receivedAt) / 1000;
  }

  /** The time of the newest status by the server's clock, in Unix seconds, or null if the server doesn't tell it. */
  get serverTime() {
    const { started, uptime_s: uptime } = this.server;
    return typeof started === "number" && typeof uptime === "number" ? started + uptime : null;
  }

  pool(name) {
    return this.pools.find(pool => pool.name === name);
  }

  update(status, receivedAt) {
    this.receivedAt = receivedAt;
    const pools = asList(status.pools).filter(({ name }) => !this.onlyPool || name === this.onlyPool);
    this.pools = pools.map(completePool);
    this.server = asObject(status.server);
    this.adaptive = status.adaptive ?? null;
    this.rejected = asList(asObject(status.reports).rejected);
    this.bus = asObject(status.reports).bus ?? null;
    this.shared = status.shared_overrides ?? null;
    this.sharedAnswers = status.shared_answers ?? null;
    this.updateRates();
    for (const pool of this.pools) addTotals(pool);
  }

  updateRates() {
    const { uptime_s: uptime, queries = 0, types, rcodes } = this.server;
    const now = { uptime, server: { queries }, types: asObject(types), rcodes: asObject(rcodes), pools: {} };
    for (const { name, members } of this.pools) {
      // A Map: adding a thousand names to an object can take seconds in V8
      now.pools[name] = new Map(members.map(member => [member.name, member.answers]));
    }
    const newest = this.counterHistory.at(-1);
    if (newest && uptime < newest.uptime) this.counterHistory = [];  // the server was restarted: its counters began at 0
    while (this.counterHistory.length > 1 && this.counterHistory[1].uptime <= uptime - RATE_WINDOW) this.counterHistory.shift();
    const before = this.counterHistory[0];
    const seconds = before ? uptime - before.uptime : 0;
    this.rates = { queries: null, types: {}, rcodes: {} };
    if (seconds >= MIN_COUNTER_GAP) {
      this.rates.queries = ratesOf(before.server, now.server, seconds).queries;
      this.rates.types = ratesOf(before.types, now.types, seconds);
      this.rates.rcodes = ratesOf(before.rcodes, now.rcodes, seconds);
      for (const { name, members } of this.pools) {
        const answers = before.pools[name];
        for (const member of members) member.rate = rateOf(answers?.get(member.name), member.answers, seconds);
      }
    }
    if (!this.counterHistory.length || uptime - newest.uptime >= MIN_COUNTER_GAP) this.counterHistory.push(now);
  }
}

/** Return the increase per second of a counter; a counter that is new began at 0. */
function rateOf(before, now, seconds) {
  return Math.max(0, (now - (before ?? 0)) / seconds);
}

/** Return the increase per second of each counter in an object. */
function ratesOf(before, now, seconds) {
  return Object.fromEntries(Object.entries(now).map(([key, count]) => [key, rateOf(before[key], count, seconds)]));
}

/** The states of members that answers name, and of members that an operator has taken out. */
const IN_USE = new Set(["usable", "full", "held back"]);
const TAKEN_OUT = new Set(["drained", "forced down"]);

/** Add totals to a pool. Each member's ``capacityShare`` is its share of the capacity of the members in use, or null. */
function addTotals(pool) {
  pool.states = {};
  pool.rate = pool.requests = null;
  pool.usable = pool.planned = pool.topScore = pool.topRate = 0;
  let usedCapacity = 0;
  const metrics = new Set();
  const parts = new Set();
  for (const member of pool.members) {
    const state = displayState(member);
    pool.states[state] = (pool.states[state] ?? 0) + 1;
    pool.usable += IN_USE.has(state) ? 1 : 0;
    pool.planned += TAKEN_OUT.has(state) ? 1 : 0;
    member.isInUse = pool.fail_open ? !TAKEN_OUT.has(state) : IN_USE.has(state);
    usedCapacity += member.isInUse ? member.capacity_share ?? 0 : 0;
    pool.topRate = Math.max(pool.topRate, member.rate ?? 0);
    if (member.rate !== null) pool.rate = (pool.rate ?? 0) + member.rate;
    const requests = member.metrics.requests_per_s;
    if (typeof requests === "number" && member.state === "usable") pool.requests = (pool.requests ?? 0) + requests;
    pool.topScore = Math.max(pool.topScore, member.score ?? 0);
    for (const metric in member.lastMetrics) metrics.add(metric);
    for (const metric in member.lastParts) parts.add(metric);
  }
  for (const member of pool.members) {
    const isKnown = member.isInUse && usedCapacity > 0 && typeof member.capacity_share === "number";
    member.capacityShare = isKnown ? member.capacity_share / usedCapacity : null;
  }
  pool.metrics = metrics;
  pool.parts = parts;
}

/** The end of a silent member's reason: how old its last report was at the time of the status. */
const SILENCE = /(?:(^|; )no report)?( for)? [\d.]+ s( ago)?$/;

/** Return why a member is in its state, without the words that the state itself says, and without the age of its last
 * report; "" for no reason. */
export function stateReason(member) {
  const state = displayState(member);
  const found = (state === "quarantined" || state === "held back" ? member.guard : member.reason) || member.guard;
  if (state === "silent") return found.replace(SILENCE, "");
  const reason = found.replace(/^ramp (\d+)%$/, "slow start, $1 % of its share");
  for (const prefix of [`${state}: `, `${state} `]) if (reason.startsWith(prefix)) return reason.slice(prefix.length);
  return reason === state ? "" : reason;
}

/** Return how old a silent member's last report is, as the end of its reason; "" for other members. ``statusAge`` is in
 * seconds. */
export function silenceText(member, statusAge) {
  const [found, before, preposition = "", ago = ""] = (member.state === "silent" && member.reason.match(SILENCE)) || [];
  if (found === undefined || typeof member.age_s !== "number") return "";
  return `${before === undefined ? "" : `${before}no report`}${preposition} ${formatDuration(member.age_s + statusAge)}${ago}`;
}

/** Return a member's state as the page shows it: a member that an operator has forced down, a usable member that a guard
 * rail restricts, and a usable member without spare capacity, have states of their own. */
export function displayState(member) {
  const { state, guard, overrides } = member;
  if (state === "alarm" && overrides.some(({ kind }) => kind === "down")) return "forced down";
  if (state !== "usable") return state;
  if (guard) return guard.startsWith("quarantined") ? "quarantined" : "held back";
  return whyFull(member) ? "full" : state;
}

/** Return the words for a member's state. A member without spare capacity is still usable. */
export function stateText(member) {
  const state = displayState(member);
  return state === "full" ? "usable, full" : state;
}

/** Return why a member has no spare capacity, or "" if it has some. ``why_full`` in member_order.py does the same. */
export function whyFull({ score, parts, metrics }) {
  if (metrics?.idle_workers === 0 && metrics.busy_workers > 0) return "every worker of its web server is busy";
  return score === 0 && hasEntries(parts ?? {}) ? "its score is 0" : "";  // without parts, no metric may be known
}

function hasEntries(object) {
  for (const _ in object) return true;
  return false;
}
