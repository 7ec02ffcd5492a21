// Says which columns of an explanation decide which member the next answer names, since a high score alone often does not.

import { formatTime } from "./value-format.js";

const TURNS = "Probability decides how often a member is named, and Credit decides whose turn it is";

/** The deciding columns, keyed by policy and then by the part of the plan. */
const DECISIONS = {
  best: {
    light: "Score decides; of members with nearly the same score, the fastest are named in turn",
    expected: `${TURNS}. A member with a lower score or a higher load can therefore be next`,
    overflow: "Capacity decides, because the loads in the reports are older than the new queries",
  },
  best_score: { expected: "Score decides" },
  round_robin: { expected: "No column decides: the members take turns" },
  weighted: { expected: "Capacity decides how often a member is named, and Credit decides whose turn it is" },
};

/** Return the sentences that state the reason of the policy and the deciding columns. */
export function decisionText({ policy = "", why, plan, fail_open: failsOpen }) {
  const reason = why ? `Reason (policy ${policy.replaceAll("_", " ")}): ${why}.` : "";
  const columns = failsOpen ? "" : DECISIONS[policy]?.[plan?.part] ?? "";
  return [reason, columns && `${columns}.`].filter(Boolean).join(" ");
}

/** Return the words before and after the member that an explanation names. If ``isCurrent`` is false, the page shows a
 * newer answer elsewhere, so the words state the time of the explanation. */
export function answerWords({ name, alternatives = [], summary, time }, isCurrent) {
  const others = alternatives.length ? `, then ${alternatives.join(", ")}` : "";
  const reason = summary ? ` ${summary.charAt(0).toUpperCase()}${summary.slice(1)}.` : "";
  if (isCurrent || !time) return [`The next answer for ${name} names `, `${others}.${reason}`];
  return [`At ${formatTime(time)}, the next answer for ${name} was to name `, `${others}.${reason} The top of the page is newer.`];
}
