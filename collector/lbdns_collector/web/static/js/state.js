// A member's state: the same word, sign and colour wherever it is shown, and what was overridden by whom.

import { attribute, className, make, text } from "./dom.js";
import { moment, number } from "./format.js";
import { stateWord } from "./model.js";

/** Signs, so that colour is never alone in telling. */
const SIGNS = {
  usable: "●", silent: "✕", drained: "◌", alarm: "▲", unknown: "?", down: "▼", "set aside": "▲", "held back": "◐",
};

const KINDS = { drain: "drained", up: "forced up", down: "forced down" };

export function overrideTitle({ kind, factor }) {
  return kind === "weight" ? `weight × ${number(factor, 2)}` : KINDS[kind] ?? kind;
}

/** Who, when, why, until when. */
export function overrideStory(override) {
  const { by, since, until, reason } = override;
  return [
    overrideTitle(override), by && `by ${by}`, typeof since === "number" && `since ${moment(since)}`,
    typeof until === "number" ? `until ${moment(until)}` : "until it is taken back", reason && `because: ${reason}`,
  ].filter(Boolean).join(", ");
}

/** Cells that show state, reason and overrides. */
export class StateCell {
  constructor(cell) {
    this.sign = make("span", "sign");
    this.sign.setAttribute("aria-hidden", "true");
    this.word = make("span", "word");
    this.badges = make("span", "badges");
    this.reason = make("span", "reason");
    this.cell = cell;
    this.own = cell.className;
    this.shown = "";
    cell.append(make("span", "state-line", this.sign, this.word, this.badges), this.reason);
  }

  update(member) {
    const word = stateWord(member);
    const reason = member.guard || member.reason || "";
    className(this.cell, `${this.own} state ${word.replace(" ", "-")}`);
    text(this.sign, SIGNS[word] ?? "?");
    text(this.word, word);
    text(this.reason, reason);
    attribute(this.reason, "title", reason || null);
    const signature = member.overrides.length ? JSON.stringify(member.overrides) : "";
    if (signature === this.shown) return;
    this.shown = signature;
    this.badges.replaceChildren(...member.overrides.map(badge));
  }
}

function badge(override) {
  const made = make("span", "badge", overrideTitle(override));
  made.title = overrideStory(override);
  made.append(make("span", "unseen", overrideStory(override)));
  return made;
}
