// What the status document of lbdns-scaler says: the headline, the figures, the problems and the plotted lines. Pure
// functions of the document, which the server has checked.

import { NO_VALUE, formatNumber, formatPercent, formatReading, pluralize } from "./value-format.js";

/** The stages in the life of a server, in order. */
export const STAGES = [
  "wanted", "starting", "configuring", "benchmarking", "joining", "in service", "draining", "stopping", "stopped",
  "deleting", "failed",
];
export const IN_SERVICE = "in service";
export const FAILED = "failed";

const SHOWN = 3600;  // seconds in the plots at most
const SHORTEST = 120;  // seconds in the plots at least

/** Return one sentence: the servers in service and wanted, and why. */
export function headline({ counts, demand, wanted, recommended, reason }) {
  const present = `${pluralize(counts[IN_SERVICE] ?? 0, "server")} in service`;
  if (!demand) return `${present}; the scaler has not decided yet`;
  const limited = recommended === wanted ? "" : ` (${formatNumber(recommended)} recommended)`;
  return `${present}, ${formatNumber(wanted)} wanted${limited}${reason ? `: ${lowerFirst(reason)}` : ""}`;
}

/** Return a sentence with its first letter in lower case, to follow a colon; an abbreviation stays as it is. */
function lowerFirst(sentence) {
  return /^[A-Z][a-z ]/.test(sentence) ? sentence[0].toLowerCase() + sentence.slice(1) : sentence;
}

/** Return the entries of the list of figures. */
export function figuresOf({ policy, minimum, maximum, quota, demand, dry_run: isDryRun }) {
  const limits = `${formatNumber(minimum)} to ${formatNumber(maximum)}`;
  return [
    ["requests/s", formatReading(demand?.requests_per_s)],
    ["requests/s per server", formatReading(demand?.capacity), "", "The capacity of one server"],
    ...(typeof demand?.cpu_percent === "number" ? [["mean CPU", formatPercent(demand.cpu_percent / 100)]] : []),
    ["servers permitted", typeof quota === "number" ? `${limits}, quota ${formatNumber(quota)}` : limits],
    ["policy", policy || NO_VALUE],
    ...(isDryRun ? [["dry run", "changes nothing", "warn"]] : []),
  ];
}

/** Return the problems of a scaler, in the form of problems.js. ``error`` says why the newest document could not be read;
 * otherwise, it is empty. ``status`` is the newest document, or null. */
export function scalerProblems(status, error, readAt) {
  const found = [];
  if (error) {
    found.push({ key: "error", kind: "no status", who: "scaler", what: error, since: readAt, isPlanned: false,
      advice: status ? "The values below are those of the last status." : "" });
  }
  if (!status) return found;
  const { farm, trouble, servers, failures, started } = status;
  if (trouble) {
    found.push({ key: "trouble", kind: "trouble", who: farm, what: trouble, since: null, isPlanned: false,
      advice: "The scaler adds and removes no servers until it can observe the servers and the demand." });
  }
  for (const { name, state, since, reason } of servers) {
    if (state !== FAILED) continue;
    found.push({ key: `failed ${name}`, kind: FAILED, who: name, what: reason, since, isPlanned: false,
      advice: "The scaler deletes the server, and starts another one if it is needed." });
  }
  for (const { name, held } of servers) {
    if (!held) continue;
    found.push({ key: `held ${name}`, kind: "held", who: name, what: "an operator keeps clients away from the server",
      since: null, isPlanned: true, advice: "The scaler does not count or remove the server until the operator's override ends." });
  }
  const counted = Object.entries(failures).filter(([, count]) => count > 0);
  if (counted.length) {
    found.push({ key: "failures", kind: "failures", who: farm, what: counted.map(([what, count]) => `${formatNumber(count)} × ${what}`).join(", "),
      since: started, isPlanned: true, advice: "" });
  }
  return found;
}

/** Return the values over time {times, range, demand, capacity, inService, recommended}; the last four are lists. ``now`` is
 * in Unix seconds.
 *
 * Capacity is the capacity of all servers that were in service, each with the present capacity of one server. */
export function roundsOverTime(status, now) {
  const { demand } = status;
  const capacity = demand ? demand.capacity : null;
  const shown = untilNow(status, now);
  const times = shown.map(({ time }) => time);
  const end = Math.max(now, times.at(-1) ?? now);
  const start = Math.max(end - SHOWN, Math.min(times[0] ?? end, end - SHORTEST));
  return {
    times, range: [start, end],
    demand: shown.map(round => round.requests_per_s),
    capacity: shown.map(round => (capacity === null ? null : round.in_service * capacity)),
    inService: shown.map(round => round.in_service),
    recommended: shown.map(round => round.recommended),
  };
}

/** Return the rounds, and what is known at ``now`` unless the next round is overdue. */
function untilNow({ rounds, counts }, now) {
  const [before, newest] = rounds.slice(-2);
  if (!newest || now <= newest.time || now - newest.time > 2 * (newest.time - before.time)) return rounds;
  return [...rounds, { ...newest, time: now, in_service: counts[IN_SERVICE] ?? newest.in_service }];
}

/** Return the servers to list, in the order of their stages: all servers whose stage changes soon, and the first of the
 * others, up to ``maximum`` in total. */
export function listedServers(servers, maximum) {
  const isLasting = ({ state }) => state === IN_SERVICE || state === "stopped";
  const room = Math.max(0, maximum - servers.filter(server => !isLasting(server)).length);
  const lasting = new Set(servers.filter(isLasting).slice(0, room));
  return sortByStage(servers.filter(server => !isLasting(server) || lasting.has(server)));
}

/** Return the servers in the order of their stages; the scaler sorts them by name. */
export function sortByStage(servers) {
  const rank = ({ state }) => STAGES.indexOf(state) >>> 0;  // an unknown stage comes last
  return servers.toSorted((a, b) => rank(a) - rank(b));
}
