// The dialog that lists the keys of the page. The key "?" and the button "Keys" open it.

import { make, makeButton } from "./dom-elements.js";

const KEYS = [
  [["?"], "Show this list"],
  [["/"], "Go to the filter of a pool with more than 12 members"],
  [["↓"], "In the filter: go to the first member"],
  [["↑", "↓"], "On a member or an event: go to the previous or the next one"],
  [["Enter"], "On a member: open or close its details"],
  [["Esc"], "Close a menu or an event, clear the filter, close all members, or end the zoom, in this order"],
];

export class KeyboardHelp {
  constructor(opener) {
    const title = make("h2", "", "Keys");
    title.id = "keys-title";
    const list = make("dl", "keys");
    for (const [keys, effect] of KEYS) {
      const names = keys.flatMap(key => [" ", make("kbd", "", key)]).slice(1);
      list.append(make("div", "", make("dt", "", ...names), make("dd", "", effect)));
    }
    const close = makeButton("Close", () => this.element.close());
    this.element = make("dialog", "", title, list, close);
    this.element.id = "keyboard-help";
    this.element.setAttribute("aria-labelledby", title.id);
    this.element.setAttribute("closedby", "any");  // a click beside the dialog closes it too
    document.body.append(this.element);
    opener.addEventListener("click", () => this.open());
  }

  open() {
    if (!this.element.open) this.element.showModal();
  }
}
