// The table of a pool's members. Rows are made once and then changed in place; only those of one page exist.

import { arrange, attribute, button, className, hide, make, style } from "./dom.js";
import { COLUMNS, NAME, comparer } from "./columns.js";
import { Details } from "./details.js";
import { stateWord } from "./model.js";

const SETTLE = 3000;  // milliseconds between two sortings by figures that move, so that rows can be read

class Row {
  constructor(name, picks) {
    this.name = name;
    this.key = button("", () => picks.toggle(this.pool.name, name), "key");
    this.opener = button(name, () => this.open(!this.details));
    this.opener.className = "opener";
    this.opener.setAttribute("aria-expanded", "false");
    const head = make("th", "member", make("div", "", this.key, this.opener));
    head.scope = "row";
    head.setAttribute("role", "rowheader");
    this.element = make("tr", "", head);
    this.element.setAttribute("role", "row");
    this.details = null;
    this.cells = COLUMNS.map(column => {
      const cell = make("td", column.right ? "right" : "");
      cell.classList.add(`col-${column.key}`);
      cell.dataset.title = column.title;
      cell.setAttribute("role", "cell");
      this.element.append(cell);
      return { cell, ...column.build(cell) };
    });
  }

  open(open) {
    this.details = open ? new Details(COLUMNS.length + 1) : null;
    this.opener.setAttribute("aria-expanded", String(open));
    this.changed();
    if (open) this.details.update(this.member, this.pool);
  }

  update(member, pool, picks) {
    this.member = member;
    this.pool = pool;
    attribute(this.opener, "title", member.addresses.join(", ") || null);
    for (const { cell, update } of this.cells) update(cell, member, pool);
    className(this.element, stateWord(member) === "usable" ? "" : "not-well");
    const colour = picks.colour(pool.name, this.name);
    style(this.key, "--key", colour ?? "transparent");
    attribute(this.key, "aria-pressed", String(colour !== null));
    attribute(this.key, "aria-label", `${this.name} in the plots`);
    attribute(this.key, "title", colour ? "Shown in the plots" : "Show in the plots");
    this.details?.update(member, pool);
  }
}

export class MemberTable {
  constructor(poolName, zone, picks, sort) {
    this.picks = picks;
    this.sort = sort;  // {key, down}
    this.rows = new Map();
    this.order = [];
    this.sorted = -Infinity;
    this.heads = new Map();
    const row = make("tr", "", ...[NAME, ...COLUMNS].map(column => this.head(column)));
    row.setAttribute("role", "row");
    const caption = make("caption", "unseen", `Members of pool ${poolName} in zone ${zone}, with state, score and load`);
    const head = make("thead", "", row);
    this.body = make("tbody");
    for (const part of [head, this.body]) part.setAttribute("role", "rowgroup");
    this.element = make("table", "members", caption, head, this.body);
    this.element.setAttribute("role", "table");
    this.empty = make("p", "empty", "No member fits the filter.");
  }

  head(column) {
    const cell = make("th", `${column.right ? "right " : ""}col-${column.key}`);
    cell.scope = "col";
    cell.setAttribute("role", "columnheader");
    const words = [column.title];
    if (column.note) words.push(make("small", "", column.note));
    if (column.sort) cell.append(button("", () => this.sortBy(column)));
    (column.sort ? cell.firstChild : cell).append(...words);
    this.heads.set(column.key, cell);
    return cell;
  }

  sortBy({ key, down = false }) {
    this.sort.key === key ? this.sort.down = !this.sort.down : Object.assign(this.sort, { key, down });
    this.sorted = -Infinity;
    this.changed(true);
  }

  /** Called, by who owns the table, when rows have to be chosen anew: ``chosen`` by a person. */
  changed() {}

  /** Rows don't move under the pointer or the focus, nor faster than they can be read. */
  get mayMove() {
    const held = this.body.matches(":hover") || this.body.contains(document.activeElement);
    return !held && performance.now() - this.sorted > SETTLE;
  }

  update(pool, { filter, from, size }) {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length ? pool.members.filter(member => fits(member, words)) : [...pool.members];
    const signature = `${words.join(" ")} ${this.sort.key} ${this.sort.down} ${found.length}`;
    if (this.mayMove || signature !== this.signature) {
      this.order = found.sort(comparer(this.sort.key, this.sort.down)).map(({ name }) => name);
      this.sorted = performance.now();
      this.signature = signature;
    }
    const members = new Map(pool.members.map(member => [member.name, member]));
    const shown = this.order.slice(from, from + size).filter(name => members.has(name));
    const elements = [];
    for (const name of shown) {
      const row = this.row(name);
      row.update(members.get(name), pool, this.picks);
      elements.push(row.element);
      if (row.details) elements.push(row.details.row);
    }
    arrange(this.body, elements);
    hide(this.empty, elements.length > 0);
    for (const [key, cell] of this.heads) {
      attribute(cell, "aria-sort", key === this.sort.key ? (this.sort.down ? "descending" : "ascending") : null);
    }
    return found.length;
  }

  row(name) {
    let row = this.rows.get(name);
    if (!row) {
      row = new Row(name, this.picks);
      row.changed = () => this.changed();
      this.rows.set(name, row);
    }
    return row;
  }

  /** Only what moves by itself: ages. */
  tick(pool) {
    const column = COLUMNS.findIndex(({ key }) => key === "age");
    for (const { member, element, cells } of this.rows.values()) {
      if (element.isConnected) cells[column].update(cells[column].cell, member, pool);
    }
  }
}

function fits(member, words) {
  const said = [member.name, stateWord(member), member.reason, member.guard, ...member.addresses,
    ...member.overrides.map(({ kind, by, reason }) => `${kind} ${by} ${reason}`)].join(" ").toLowerCase();
  return words.every(word => said.includes(word));
}
