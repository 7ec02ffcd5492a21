// Describes how a pool uses its backup, which is another pool: how many answers name the backup's members, why, and since when.

import { formatPercent, formatTime } from "./value-format.js";

/** The reasons that the server gives, each with its advice. */
const ADVICE = {
  "is full": "Add members to the pool, or find out why they carry less than usual. The pool then takes its clients back.",
  "has no usable member": "Check the members and their agents. The pool takes its clients back when members are usable.",
  "has no member": "Let a member join the pool, or add one to the configuration.",
};
const RETURNS = "takes its clients back";
const STOPPED = "no longer sends clients to its backup";

/** Return since when each pool has used its backup, in Unix seconds by pool. ``events`` are the server's, oldest first. */
export function backupStarts(events) {
  const starts = new Map();
  for (const { kind, pool, text, time } of events) {
    if (kind !== "backup") continue;
    if (text.includes(STOPPED)) starts.delete(pool);
    else if (!starts.has(pool)) starts.set(pool, time);
  }
  return starts;
}

/** Return a sentence that says how a pool uses its backup, or "" if it does not. ``since`` is in Unix seconds. */
export function backupSentence({ name, backup }, since) {
  if (!backup?.share) return "";
  const cause = `${backup.why === RETURNS ? "while" : "because"} pool ${name} ${backup.why}`;
  return `${answersToBackup(backup)}, ${cause}${since === undefined ? "" : ` (backup in use since ${formatTime(since)})`}.`;
}

/** Return a problem for each pool that uses its backup. While a pool takes its clients back, no action is needed. */
export function backupProblems(pools, events) {
  const starts = backupStarts(events);
  return pools.filter(({ backup }) => backup?.share).map(({ name, backup }) => ({
    key: `backup ${name}`, kind: "uses its backup", who: name, isPlanned: backup.why === RETURNS,
    what: `${backup.why}: ${lowerFirst(answersToBackup(backup))}`, since: starts.get(name) ?? null,
    advice: ADVICE[backup.why] ?? "No action is needed: the clients return step by step.",
  }));
}

const lowerFirst = text => `${text.charAt(0).toLowerCase()}${text.slice(1)}`;

function answersToBackup({ pool, share }) {
  return share >= 1 ? `All answers name members of pool ${pool}` : `${formatPercent(share)} of the answers name members of pool ${pool}`;
}
