// The panel "Problems": what is wrong, since when, and what to do; and the problems of the last hour that have ended. The
// panel is hidden if there are neither.

import { make, makeButton, setAttribute, setChildren, setClass, setHidden, setText } from "./dom-elements.js";
import { knownTime } from "./ended-problems.js";
import { formatDuration, formatTime, pluralize } from "./value-format.js";

const MAX_SHOWN = 6;  // problems, unless the viewer requests all
const MAX_ENDED = 3;
const ORDERED = new Set(["drained", "forced down"]);  // states that an operator has chosen

export class ProblemPanel {
  constructor(element) {
    this.element = element;
    this.title = make("h2");
    this.title.id = "problems-title";
    this.count = make("span", "quiet");
    this.current = new ProblemList(MAX_SHOWN, "more problem", updateCurrent);
    this.ended = new ProblemList(MAX_ENDED, "more ended problem", updateEnded);
    this.endedTitle = make("h3", "part");
    this.planned = new ProblemList(MAX_SHOWN, "more planned member", updateCurrent);
    this.plannedTitle = make("h3", "part");
    element.append(make("div", "panel-head", this.title, this.count), ...this.current.elements, this.endedTitle, ...this.ended.elements,
      this.plannedTitle, ...this.planned.elements);
  }

  /** Show the current problems and those that have ended. ``now`` is in Unix seconds. The page has the events of the last
   * ``knownSpan`` seconds; the number is not positive if the page has none. */
  update(problems, ended, now, knownSpan) {
    setHidden(this.element, !problems.length && !ended.length);
    const planned = problems.filter(({ isPlanned }) => isPlanned);
    const real = problems.filter(({ isPlanned }) => !isPlanned);
    const span = knownSpan > 0 ? ` in the last ${knownTime(knownSpan)}` : "";
    const plannedTitle = planned.every(({ kind }) => ORDERED.has(kind)) ? "Planned" : "Planned or temporary";
    const isOnlyPlanned = !real.length && !ended.length;
    setText(this.title, isOnlyPlanned ? plannedTitle : "Problems");
    setText(this.count, isOnlyPlanned ? `no problems now${span && ` or${span}`}` : `${real.length || "none"} now`);
    setText(this.endedTitle, ended.length ? `Ended${span}` : `No other problem${span}`);
    setHidden(this.endedTitle, isOnlyPlanned || !ended.length && !span);
    setText(this.plannedTitle, plannedTitle);
    setHidden(this.plannedTitle, isOnlyPlanned || !planned.length);
    this.current.update(real, now);
    this.ended.update(ended, now);
    this.planned.update(planned, now);
  }
}

/** A list of problems, of which it shows the first few. A button shows all. ``updateRow`` is for current or ended problems. */
export class ProblemList {
  constructor(maximum, noun, updateRow) {
    Object.assign(this, { maximum, noun, updateRow });
    this.rows = new Map();
    this.showsAll = false;
    this.list = make("ul", "problems");
    this.toggle = makeButton("", () => {
      this.showsAll = !this.showsAll;
      this.update(this.problems, this.now);
    });
    this.elements = [this.list, this.toggle];
  }

  update(problems, now) {
    Object.assign(this, { problems, now });
    const isLong = problems.length > this.maximum + 1;  // a button for a single problem would need as much space
    const shown = this.showsAll || !isLong ? problems : problems.slice(0, this.maximum);
    const rows = new Map(shown.map(problem => [problem.key, this.rows.get(problem.key) ?? new ProblemRow()]));
    this.rows = rows;  // rows of problems that are no longer in the list are dropped
    for (const problem of shown) this.updateRow(rows.get(problem.key), problem, now);
    setChildren(this.list, [...rows.values()].map(row => row.element));
    setHidden(this.list, !problems.length);
    setHidden(this.toggle, !isLong);
    setText(this.toggle, this.showsAll ? "Show fewer" : `Show ${pluralize(problems.length - this.maximum, this.noun)}`);
    setAttribute(this.toggle, "aria-expanded", String(this.showsAll));
  }
}

class ProblemRow {
  constructor() {
    this.who = make("b", "who");
    this.kind = make("span", "kind");
    this.time = make("span", "quiet");
    this.what = make("p", "what");
    this.advice = make("p", "quiet");
    this.element = make("li", "", make("p", "problem-head", this.who, " ", this.kind, " ", this.time), this.what, this.advice);
  }

  update({ who, kind, what }, className, time, advice = "") {
    setClass(this.element, className);
    setText(this.who, who);
    setText(this.kind, kind);
    setText(this.time, time);
    setText(this.what, what);
    setHidden(this.what, !what);
    setText(this.advice, advice);
    setHidden(this.advice, !advice);
  }
}

/** Show a current problem, which began at ``since``. */
export function updateCurrent(row, problem, now) {
  const { since, advice, isPlanned } = problem;
  const time = since === null ? "" : `since ${formatTime(since)}, for ${formatDuration(Math.max(0, Math.round(now - since)))}`;
  row.update(problem, isPlanned ? "planned" : "trouble", time, advice);
}

function updateEnded(row, problem) {
  const { start, end, count } = problem;
  const times = count > 1 ? `${count} times from ` : start === end ? "at " : "";
  const seconds = Math.round(end - start);
  const duration = seconds ? formatDuration(seconds) : "less than 1 s";
  row.update(problem, "ended", start === end
    ? `${times}${formatTime(start)}` : `${times}${formatTime(start)} to ${formatTime(end)}, for ${duration}`);
}
