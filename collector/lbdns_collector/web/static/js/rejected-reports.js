// The panel "Rejected reports": the senders of reports that the collector rejects, and the reasons. The panel is
// hidden while there are no rejected reports.

import { make, makeHeaderCell, makeScrollBox, setChildren, setHidden, setText } from "./dom-elements.js";
import { NO_VALUE, formatDuration, formatNumber } from "./value-format.js";

const COLUMNS = [
  ["Source", ({ source }) => source],
  ["Claims to be", ({ host }) => host || NO_VALUE],
  ["Key id", ({ host, key_id: keyId }) => keyId || (host ? "unsigned" : NO_VALUE)],
  ["Reports", ({ count }) => formatNumber(count), "right"],
  ["Last", ({ age_s: age }) => `${formatDuration(age)} ago`, "right"],
  ["Reason", ({ reason, advice }) => `${reason}: ${advice}`, "reason"],
];

export class RejectedReports {
  constructor(element) {
    this.element = element;
    this.rows = new Map();
    const title = make("h2", "", "Rejected reports");
    title.id = "rejected-title";
    const note = make("p", "quiet", "The collector rejected these reports within the last ten minutes. Sources and names may be forged.");
    const caption = make("caption", "unseen", "Senders of rejected reports, members' addresses first");
    const head = make("thead", "", make("tr", "", ...COLUMNS.map(([heading, , className]) => makeHeaderCell(heading, className))));
    this.body = make("tbody");
    const table = make("table", "rejected", caption, head, this.body);
    element.append(make("div", "panel-head", title), note, makeScrollBox("Senders of rejected reports", table));
  }

  update({ rejected }) {
    setHidden(this.element, !rejected.length);
    const rows = new Map();
    for (const sender of rejected) {
      const key = `${sender.source} ${sender.host}`;
      const row = this.rows.get(key) ?? make("tr", "", ...COLUMNS.map(([, , className]) => make("td", className)));
      COLUMNS.forEach(([, textOf], i) => setText(row.children[i], textOf(sender)));
      rows.set(key, row);
    }
    this.rows = rows;
    setChildren(this.body, [...rows.values()]);
  }
}
