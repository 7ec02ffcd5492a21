// Folds problems that many members have in common into one problem, so that an outage does not hide other problems.

import { formatNumber } from "./value-format.js";

const MANY = 4;  // members; fewer are listed one by one
const APART = 5;  // seconds between the times of problems with the same cause
const MAX_NAMES = 8;

const collator = new Intl.Collator("en", { numeric: true });

const isNear = (a = null, b = null) => (a === null || b === null ? a === b : Math.abs(a - b) <= APART);

/** Return ``problems`` with one problem in place of MANY or more of the same ``likeness`` whose times differ by at most
 * APART seconds. Problems without a ``likeness`` stay as they are. ``begin`` and ``end`` are the names of the properties
 * that contain the times. */
export function foldProblems(problems, begin, end) {
  const groups = [];
  const groupsByLikeness = new Map();
  for (const problem of problems) {
    const similar = groupsByLikeness.get(problem.likeness) ?? [];
    let group = problem.likeness
      && similar.find(([first]) => isNear(first[begin], problem[begin]) && isNear(first[end], problem[end]));
    if (group) {
      group.push(problem);
      continue;
    }
    group = [problem];
    groups.push(group);
    similar.push(group);
    groupsByLikeness.set(problem.likeness, similar);
  }
  return groups.flatMap(group => (group.length < MANY ? group : [fold(group)]));
}

function fold(group) {
  const [first] = group;
  const names = group.map(({ who }) => who).sort(collator.compare);
  const others = names.length > MAX_NAMES ? ` and ${formatNumber(names.length - MAX_NAMES)} more` : "";
  const listed = `${names.slice(0, MAX_NAMES).join(", ")}${others}`;
  return {
    ...first, key: `${first.key}\nand others`, who: `${formatNumber(names.length)} members of ${first.pool}`,
    advice: first.adviceForMany,
    what: first.what ? `${first.what}: ${listed}` : listed,
  };
}
