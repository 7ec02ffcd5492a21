// The table cell that shows a member's state: sign, word, reason, and a badge for each override.

import { make, setAttribute, setClass, setText } from "./dom-elements.js";
import { overrideDescription, overrideTitle } from "./override-text.js";
import { displayState, silenceText, stateReason, stateText, whyFull } from "./status-model.js";

/** A sign for each state, so that no state is shown by colour alone. */
const SIGNS = {
  usable: "●", silent: "✕", drained: "◌", alarm: "▲", unknown: "?", "forced down": "▼", quarantined: "▲", "held back": "◐",
  full: "◆",
};

export class MemberStateCell {
  constructor(cell) {
    this.sign = make("span", "sign");
    this.sign.setAttribute("aria-hidden", "true");
    this.word = make("span", "word");
    this.badges = make("span", "badges");
    this.why = make("span");
    this.silence = make("span", "silence");  // only shown where the column with the age of the report is not
    this.reason = make("span", "reason", this.why, this.silence);
    this.cell = cell;
    this.baseClass = cell.className;
    this.shownOverrides = "";  // as JSON
    cell.append(make("span", "state-line", this.sign, this.word, this.badges), this.reason);
  }

  /** Show a member's state. Without ``statusAge`` (seconds), the table always shows the age of the report elsewhere. */
  update(member, statusAge = null) {
    const state = displayState(member);
    const reason = stateReason(member);
    setClass(this.cell, `${this.baseClass} state ${state.replace(" ", "-")}`);
    setText(this.sign, SIGNS[state] ?? "?");
    setText(this.word, stateText(member));
    setAttribute(this.word, "title", state === "full" ? whyFull(member) : null);  // a line of its own would come and go
    setText(this.why, reason);
    setAttribute(this.reason, "title", reason || null);
    this.tick(member, statusAge);
    const others = member.overrides.filter(override => overrideTitle(override) !== state);  // the state says the rest
    const overrides = others.length ? JSON.stringify(others) : "";
    if (overrides === this.shownOverrides) return;
    this.shownOverrides = overrides;
    this.badges.replaceChildren(...others.map(makeBadge));
  }

  /** Update the age of a silent member's report, which grows between two statuses. */
  tick(member, statusAge) {
    setText(this.silence, statusAge === null ? "" : silenceText(member, statusAge));
  }
}

function makeBadge(override) {
  const badge = make("span", "badge", overrideTitle(override));
  badge.title = overrideDescription(override);
  badge.append(make("span", "unseen", badge.title));
  return badge;
}
