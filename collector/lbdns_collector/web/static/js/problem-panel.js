// The panel "Problems": what is wrong, since when, and what to do. The panel is hidden while all is well.

import { make, setAttribute, setChildren, setClass, setHidden, setText } from "./dom-elements.js";
import { formatTime, pluralize } from "./value-format.js";

const MAX_SHOWN = 6;  // rows, unless the viewer requests all

export class ProblemPanel {
  constructor(element) {
    this.element = element;
    this.rows = new Map();
    this.problems = [];
    this.showsAll = false;
    const title = make("h2", "", "Problems");
    title.id = "problems-title";
    this.count = make("span", "quiet");
    this.list = make("ul", "problems");
    this.toggle = make("button");
    this.toggle.type = "button";
    this.toggle.addEventListener("click", () => {
      this.showsAll = !this.showsAll;
      this.update(this.problems);
    });
    element.append(make("div", "panel-head", title, this.count), this.list, this.toggle);
  }

  update(problems) {
    this.problems = problems;
    setHidden(this.element, !problems.length);
    setText(this.count, `${problems.length}`);
    const shown = this.showsAll ? problems : problems.slice(0, MAX_SHOWN);
    const rows = new Map(shown.map(problem => [problem.key, this.rows.get(problem.key) ?? new ProblemRow()]));
    this.rows = rows;  // rows of problems that have ended are dropped
    for (const problem of shown) rows.get(problem.key).update(problem);
    setChildren(this.list, [...rows.values()].map(row => row.element));
    setHidden(this.toggle, problems.length <= MAX_SHOWN);
    const more = pluralize(problems.length - MAX_SHOWN, "more problem");
    setText(this.toggle, this.showsAll ? "Show fewer problems" : `Show ${more}`);
    setAttribute(this.toggle, "aria-expanded", String(this.showsAll));
  }
}

class ProblemRow {
  constructor() {
    this.who = make("b", "who");
    this.kind = make("span", "kind");
    this.since = make("span", "quiet");
    this.what = make("p", "what");
    this.advice = make("p", "quiet");
    this.element = make("li", "", make("p", "problem-head", this.who, " ", this.kind, " ", this.since), this.what, this.advice);
  }

  update({ who, kind, since, what, advice, isPlanned }) {
    setClass(this.element, isPlanned ? "planned" : "trouble");
    setText(this.who, who);
    setText(this.kind, kind);
    setText(this.since, since === null ? "" : `since ${formatTime(since)}`);
    setText(this.what, what);
    setHidden(this.what, !what);
    setText(this.advice, advice);
  }
}
