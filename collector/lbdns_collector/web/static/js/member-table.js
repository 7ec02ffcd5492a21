// The table of a pool's members: sorting, filtering and paging. Rows are created once and updated in place, and only the
// rows of the current page are in the document.

import { makeButton, make, setAttribute, setChildren, setClass, setHidden, setStyle, setText } from "./dom-elements.js";
import { hiddenColumns } from "./column-chooser.js";
import { COLUMNS, NAME_COLUMN, memberComparator } from "./member-columns.js";
import { MemberDetails } from "./member-details.js";
import { displayState, stateText } from "./status-model.js";

const SORT_INTERVAL = 3000;  // milliseconds between two sortings by values that change, so that viewers can read the rows

class MemberRow {
  constructor(name, plottedMembers) {
    this.name = name;
    this.plotToggle = makeButton("", () => plottedMembers.toggle(this.pool.name, name), "key");
    this.opener = makeButton(name, () => this.setOpen(!this.details), "opener");
    this.opener.setAttribute("aria-expanded", "false");
    const nameCell = make("th", "member", make("div", "", this.plotToggle, this.opener));
    nameCell.scope = "row";
    nameCell.setAttribute("role", "rowheader");
    this.element = make("tr", "", nameCell);
    this.element.setAttribute("role", "row");
    this.details = null;
    this.cells = COLUMNS.map(column => {
      const cell = make("td", column.right ? "right" : "");
      cell.classList.add(`col-${column.key}`);
      cell.dataset.title = column.note ? `${column.title} ${column.note}` : column.title;
      cell.setAttribute("role", "cell");
      this.element.append(cell);
      return { key: column.key, cell, ...column.build(cell) };
    });
    this.showColumns();
  }

  showColumns() {
    for (const { key, cell } of this.cells) setHidden(cell, hiddenColumns.has(key));
  }

  /** Return the metrics of the sparklines that are visible. */
  lineMetrics() {
    return this.cells.filter(({ line }) => line?.checkVisibility()).map(({ metric }) => metric);
  }

  drawLines(sparklineValues, now) {
    for (const { key, drawLine } of this.cells) {
      if (drawLine && !hiddenColumns.has(key)) drawLine(this.member, this.pool, sparklineValues, now);
    }
  }

  setOpen(isOpen) {
    this.details = isOpen ? new MemberDetails(COLUMNS.length + 1) : null;
    this.opener.setAttribute("aria-expanded", String(isOpen));
    this.onChange();
    if (isOpen) this.details.update(this.member, this.pool);
  }

  update(member, pool, plottedMembers) {
    this.member = member;
    this.pool = pool;
    setAttribute(this.opener, "title", member.addresses.join(", ") || null);
    for (const { cell, update } of this.cells) update(cell, member, pool);
    setClass(this.element, displayState(member).replace(" ", "-"));
    const colour = plottedMembers.colour(pool.name, this.name);
    setStyle(this.plotToggle, "--key", colour ?? "transparent");
    setAttribute(this.plotToggle, "aria-pressed", String(colour !== null));
    setAttribute(this.plotToggle, "aria-label", `${this.name} in the plots`);
    setAttribute(this.plotToggle, "title", colour ? "Shown in the plots" : "Show in the plots");
    this.details?.update(member, pool);
  }
}

export class MemberTable {
  constructor(poolName, zone, plottedMembers, sort) {
    this.plottedMembers = plottedMembers;
    this.sort = sort;  // {key, down}
    this.rows = new Map();
    this.order = [];
    this.sortedAt = -Infinity;
    this.headerCells = new Map();
    this.scales = [];  // the elements that state the scales of bars
    const headerRow = make("tr", "", ...[NAME_COLUMN, ...COLUMNS].map(column => this.makeColumnHeader(column)));
    headerRow.setAttribute("role", "row");
    const caption = make("caption", "unseen", `Members of pool ${poolName} in zone ${zone}, with state, score and load`);
    const head = make("thead", "", headerRow);
    this.body = make("tbody");
    for (const part of [head, this.body]) part.setAttribute("role", "rowgroup");
    this.element = make("table", "members", caption, head, this.body);
    this.element.setAttribute("role", "table");
    this.noMatch = make("p", "empty", "No member matches the filter.");
  }

  makeColumnHeader(column) {
    const cell = make("th", `${column.right ? "right " : ""}col-${column.key}`);
    cell.scope = "col";
    cell.setAttribute("role", "columnheader");
    const content = [column.title];
    if (column.note) content.push(make("small", "", column.note));
    if (column.scale) {
      const scale = make("small");
      content.push(scale);
      this.scales.push({ scale, textOf: column.scale });
    }
    setHidden(cell, hiddenColumns.has(column.key));
    if (column.sort) cell.append(makeButton("", () => this.sortBy(column)));
    (column.sort ? cell.firstChild : cell).append(...content);
    this.headerCells.set(column.key, cell);
    return cell;
  }

  sortBy({ key, down = false }) {
    if (this.sort.key === key) this.sort.down = !this.sort.down;
    else Object.assign(this.sort, { key, down });
    this.sortedAt = -Infinity;
    this.onChange(true);
  }

  /** The owner replaces this with a function that updates the table. ``isSortChange``: the viewer chose another order. */
  onChange(isSortChange = false) {}

  /** Rows may move only after a pause, and never while the pointer or the focus is among them. */
  get mayReorder() {
    const isInUse = this.body.matches(":hover") || this.body.contains(document.activeElement);
    return !isInUse && performance.now() - this.sortedAt > SORT_INTERVAL;
  }

  /** Show rows ``from`` to ``from + size`` of the members that match ``filter``; return the number of matches. */
  update(pool, { filter, from, size }) {
    const terms = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = terms.length ? pool.members.filter(member => matchesAll(member, terms)) : [...pool.members];
    const signature = `${terms.join(" ")} ${this.sort.key} ${this.sort.down} ${matches.length}`;
    if (this.mayReorder || signature !== this.signature) {
      this.order = matches.sort(memberComparator(this.sort.key, this.sort.down)).map(({ name }) => name);
      this.sortedAt = performance.now();
      this.signature = signature;
    }
    const members = new Map(pool.members.map(member => [member.name, member]));
    const shownNames = this.order.slice(from, from + size).filter(name => members.has(name));
    const elements = [];
    for (const name of shownNames) {
      const row = this.row(name);
      row.update(members.get(name), pool, this.plottedMembers);
      elements.push(row.element);
      if (row.details) elements.push(row.details.element);
    }
    setChildren(this.body, elements);
    setHidden(this.noMatch, elements.length > 0);
    for (const { scale, textOf } of this.scales) setText(scale, textOf(pool));
    for (const [key, cell] of this.headerCells) {
      setAttribute(cell, "aria-sort", key === this.sort.key ? (this.sort.down ? "descending" : "ascending") : null);
    }
    return matches.length;
  }

  row(name) {
    let row = this.rows.get(name);
    if (!row) {
      row = new MemberRow(name, this.plottedMembers);
      row.onChange = () => this.onChange();
      this.rows.set(name, row);
    }
    return row;
  }

  /** Show the columns that the viewer has chosen. */
  showColumns() {
    for (const [key, cell] of this.headerCells) setHidden(cell, hiddenColumns.has(key));
    for (const row of this.rows.values()) row.showColumns();
  }

  /** Update the ages of the reports, which grow between two statuses, and the sparklines. */
  tick(pool, sparklineValues, now) {
    const shown = [...this.rows.values()].filter(row => row.element.isConnected);
    if (shown.length) sparklineValues.request(pool.name, shown.map(({ name }) => name), shown[0].lineMetrics(), now);
    for (const row of shown) {
      for (const { cell, tick } of row.cells) tick?.(cell, row.member, pool);
      row.drawLines(sparklineValues, now);
    }
  }
}

function matchesAll(member, terms) {
  const searched = [member.name, stateText(member), member.reason, member.guard, ...member.addresses,
    ...member.overrides.map(({ kind, by, reason }) => `${kind} ${by} ${reason}`)].join(" ").toLowerCase();
  return terms.every(term => searched.includes(term));
}
