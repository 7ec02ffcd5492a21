// Finds the problems of the last hour that have ended, from the server's events.

import { foldProblems } from "./folded-problems.js";
import { formatNumber } from "./value-format.js";

export const HOUR = 3600;  // seconds

/** Return the time for which the page knows the problems, as the page words it everywhere: "hour", "4 min", "minute" or "45 s". The
 * time is rounded down, so that the page never claims more than it knows. ``seconds`` is positive. */
export function knownTime(seconds) {
  if (seconds >= HOUR) return "hour";
  if (seconds >= 60 && seconds < 120) return "minute";
  return seconds >= 60 ? `${formatNumber(Math.floor(seconds / 60))} min` : `${formatNumber(Math.max(1, Math.floor(seconds)))} s`;
}

/** Kinds of event that begin a problem, which lasts until an event of level info ends it. */
const LASTING = new Set(["state", "guard", "fail_open", "backup", "collector", "history"]);
/** What events of other kinds report lasts only for a moment. An operator's overrides are no problems. */
const NO_PROBLEMS = new Set(["override"]);

/** Return the problems that have ended after ``since`` (Unix seconds), the newest end first. ``events`` are the server's
 * events, oldest first.
 *
 * A silent member's reason is left out, because it states the age of the report at the time of the event. Members with the
 * same problem at the same time are one problem. Each problem has ``key``, ``who``, ``kind``, ``what``, ``start`` and
 * ``end``, and ``count`` for repeated moments. */
export function findEndedProblems(events, since) {
  const open = new Map();
  const ended = [];
  for (const event of events) {
    const { kind, pool, member, level, time } = event;
    if (NO_PROBLEMS.has(kind)) continue;
    const key = `${kind}\n${pool}\n${member}`;
    const known = open.get(key);
    if (!LASTING.has(kind)) {
      if (level === "info" || time <= since) continue;
      if (known) Object.assign(known, { end: time, count: known.count + 1 });
      else open.set(key, { ...describe(event), key, start: time, end: time, count: 1 });
    } else if (level !== "info") {
      if (!known) open.set(key, { ...describe(event), key, start: time, end: null, count: 1 });
    } else if (known) {
      open.delete(key);
      known.end = time;
      if (time > since) ended.push({ ...known, key: `${key}\n${known.start}` });
    }
  }
  ended.push(...[...open.values()].filter(({ end }) => end !== null));
  ended.sort((a, b) => b.end - a.end);
  return foldProblems(ended.filter(({ isPlanned }) => !isPlanned), "start", "end");
}

/** Return {who, kind, what, isPlanned} for the first event of a problem. */
function describe({ kind, pool, member, text }) {
  const withoutPool = text.startsWith(`pool ${pool}: `) ? text.slice(`pool ${pool}: `.length) : text;
  const state = member && withoutPool.match(/ is ([a-z ]+?)(?: \(was [a-z ]+\))?(?:: (.*))?$/);
  if (state) {
    const [, word, reason = ""] = state;
    const what = word === "silent" ? "" : reason.replace(`${word}: `, "");
    return { who: member, kind: word, what, pool, likeness: `${word}\n${pool}\n${what}`, isPlanned: reason.startsWith("forced down") };
  }
  if (kind === "fail_open") return { who: pool, kind: "fail open", what: withoutPool.replace(/^fails open: ([^;]*).*$/, "$1") };
  if (kind === "backup") return { who: pool, kind: "uses its backup", what: withoutPool };
  return { who: member || pool || "lbdns", kind: kind.replaceAll("_", " "), what: withoutPool };
}
