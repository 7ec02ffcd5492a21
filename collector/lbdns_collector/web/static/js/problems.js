// Finds the problems in a status: what is wrong, since when, and what to do. The result is empty when all is well.

import { backupProblems } from "./backup-use.js";
import { foldProblems } from "./folded-problems.js";
import { displayState, stateReason, whyFull } from "./status-model.js";
import { domainName, pluralize } from "./value-format.js";

/** The order of the problems: the most serious come first. */
const STATE_ORDER = ["silent", "quarantined", "alarm", "no requests", "forced down", "unknown", "held back", "full", "drained"];

const ADVICE = {
  silent: "Check that the member runs, and that its agent runs and reaches the collector.",
  quarantined: "Check the web server on the member. The quarantine ends when the member passes lbdns's tests.",
  alarm: "Remove the cause that the agent reports. The alarm then ends.",
  "forced down": name => `To select the member again, run: lbdns force ${name ?? "MEMBER"} auto`,
  unknown: "Start the agent on the member, and check that its option --name names the member.",
  "held back": "No action is needed: the member receives more answers as it proves itself.",
  drained: name => `To select the member again, run: lbdns undrain ${name ?? "MEMBER"}`,
};

const ADVICE_FOR_NEEDED = "Check the web server on the member. The pool cannot do without the member, so answers still name it.";

/** Return the problems in ``model``, the most serious first. ``events`` are the server's events, oldest first.
 *
 * Each problem has ``key``, ``kind``, ``who``, ``what``, ``advice`` and ``since`` (Unix seconds, or null if unknown).
 * Members with the same problem since the same time are one problem.
 * ``isPlanned`` is true for a state that an operator has chosen, or that ends without help. */
export function findProblems(model, events, now) {
  const starts = eventStarts(events);
  const pools = model.pools.filter(pool => pool.fail_open).map(pool => ({
    key: `pool ${pool.name}`, kind: "fail open", who: pool.name, isPlanned: false,
    what: pool.fail_open_reason || "too few members are usable",
    since: starts.get(`fail_open\n${pool.name}\n`) ?? null,
    advice: "Check the members and their agents. Answers name every member that is not drained.",
  }));
  const full = model.pools.filter(pool => pool.full).map(pool => ({
    key: `pool ${pool.name} full`, kind: "full", who: pool.name, isPlanned: false, since: pool.full.since,
    what: `no member that answers name has spare capacity${pool.full.since === null ? FULL_BEFORE : ""}`,
    advice: "Add servers to the pool, or give it a backup pool. Until then, requests wait.",
  }));
  const members = model.pools.flatMap(pool => pool.members.map(member => memberProblem(pool, member, starts, now)).filter(Boolean));
  members.sort((a, b) => STATE_ORDER.indexOf(a.kind) - STATE_ORDER.indexOf(b.kind));
  const backups = backupProblems(model.pools, events);
  const problems = [...serverProblems(model), ...pools, ...full, ...backups, ...foldProblems(members, "since"), ...rejectedProblem(model.rejected)];
  return problems.sort((a, b) => a.isPlanned - b.isPlanned);  // a stable sort
}

function serverProblems({ server: { fault, history }, bus, shared, sharedAnswers }) {
  const problems = [];
  if (fault) {
    problems.push({ key: "fault", kind: "server", who: "lbdns", what: fault, since: null, isPlanned: false,
      advice: "Read the log of lbdns. If the fault persists, restart the program." });
  }
  if (history?.on && history.ok === false) {
    problems.push({ key: "history", kind: "history", who: "lbdns", what: history.error || "the history cannot be written",
      since: null, isPlanned: false, advice: "Check the free space and the permissions of the history file's directory." });
  }
  if (bus && bus.connected === false) {
    problems.push({ key: "bus", kind: "bus", who: "lbdns", what: `no reports arrive from the bus: ${bus.problem}`,
      since: null, isPlanned: false, advice: "Check the NATS server, and the section [bus] of the configuration." });
  }
  if (sharedAnswers?.problem && bus?.connected !== false) {
    problems.push({ key: "answers", kind: "answers", who: "lbdns",
      what: `answers are not shared with the other servers: ${sharedAnswers.problem}`, since: null, isPlanned: false,
      advice: "Permit the subject lbdns.answers on the NATS server, or set share_answers = false." });
  }
  if (shared && shared.connected === false) {
    const pending = shared.pending ? `; orders not sent yet: ${shared.pending}` : "";
    problems.push({ key: "overrides", kind: "overrides", who: "lbdns",
      what: `cut off from the servers that share overrides: ${shared.problem}${pending}`,
      since: shared.cut_off_since ?? null, isPlanned: false,
      advice: "Check the NATS server and its JetStream. Until then, overrides count only on the server where they are set." });
  }
  return problems;
}

const ADVICE_FOR_UNSERVED = "Check that clients reach the web server on the member. Answers still name the member: "
  + "lbdns quarantines it only if errors or waiting connections confirm that it has failed.";

/** Return a problem for a member that answers name although it reports no requests, or null. */
function unservedProblem(pool, { name, unservedAnswers }) {
  if (!unservedAnswers) return null;
  return {
    key: `${pool.name}\n${name}\nno requests`, kind: "no requests", who: name, isPlanned: false, since: null, pool: pool.name,
    what: `${pluralize(unservedAnswers, "answer")} have named it since its last request`, advice: ADVICE_FOR_UNSERVED,
  };
}

const FULL_BEFORE = ", since before this page was opened";
const ADVICE_FOR_FULL = "No action is needed while other members have spare capacity: best sends them more clients.";

/** Return a notice about a full member of a pool that is not full as a whole, or null. */
function fullNotice(pool, member) {
  if (!member.full || pool.full) return null;
  const what = `${whyFull(member)}${member.full.since === null ? FULL_BEFORE : ""}`;
  return {
    key: `${pool.name}\n${member.name}\nfull`, kind: "full", who: member.name, isPlanned: true, since: member.full.since,
    pool: pool.name, what, likeness: `full\n${pool.name}\n${what}`, advice: ADVICE_FOR_FULL, adviceForMany: ADVICE_FOR_FULL,
  };
}

function memberProblem(pool, member, starts, now) {
  const forced = member.overrides.find(({ kind }) => kind === "drain" || kind === "down");
  const kind = displayState(member);
  if (kind === "usable" || kind === "full") return unservedProblem(pool, member) ?? fullNotice(pool, member);
  const isChosen = kind === "drained" || kind === "forced down";
  const isNeeded = kind === "held back" && member.guard.startsWith("needed");  // it would be quarantined in a larger pool
  const advice = isNeeded ? ADVICE_FOR_NEEDED : ADVICE[kind] ?? "";
  const since = sinceOf(kind, pool, member, forced, starts, now);
  const what = since === null ? stateReason(member) : withoutAge(stateReason(member));
  return {
    key: `${pool.name}\n${member.name}`, kind, who: member.name, isPlanned: isChosen || kind === "held back" && !isNeeded,
    what, since, pool: pool.name, likeness: `${kind}\n${pool.name}\n${what}`,
    advice: typeof advice === "function" ? advice(domainName(member.name, pool.zone)) : advice,
    adviceForMany: typeof advice === "function" ? advice(null).replace("the member", "a member") : advice,
  };
}

/** Return a guard's reason without its last part, which states how long the problem has lasted. */
const withoutAge = reason => reason.replace(/, for [\d.]+ \w+$/, "");

const isGuard = kind => kind === "quarantined" || kind === "held back";

function sinceOf(kind, pool, member, forced, starts, now) {
  if ((kind === "drained" || kind === "forced down") && typeof forced?.since === "number") return forced.since;
  if (kind === "held back" && !member.guard.startsWith("needed")) return null;  // slow start has no event of its own
  const event = starts.get(`${isGuard(kind) ? "guard" : "state"}\n${pool.name}\n${member.name}`);
  if (event !== undefined) return event;
  return kind === "silent" && typeof member.age_s === "number" ? now - member.age_s : null;
}

function rejectedProblem(senders) {
  if (!senders.length) return [];
  const [{ source, host, reason, advice }] = senders;
  const others = senders.length > 1 ? ` and ${senders.length - 1} more` : "";
  return [{
    key: "rejected", kind: "rejected reports", who: `${host || source}${others}`, what: reason.replaceAll("_", " "),
    since: null, advice, isPlanned: false,
  }];
}

/** Return the time of the newest event that reports trouble, by kind of event, pool and member. */
function eventStarts(events) {
  const starts = new Map();
  for (const { kind, pool, member, level, time } of events) {
    const key = `${kind}\n${pool}\n${member}`;
    if (level === "info") starts.delete(key);
    else starts.set(key, time);
  }
  return starts;
}
