// The panel of one pool: its statistics, its sites, its member table, and its shadow policies.

import { fillList, make, makeButton, makeLabel, makeScrollBox, makeSelect, setAttribute, setClass, setHidden, setText } from "./dom-elements.js";
import { ColumnChooser } from "./column-chooser.js";
import { COLUMNS, NAME_COLUMN } from "./member-columns.js";
import { MemberTable } from "./member-table.js";
import { fillLegend } from "./score-share-bars.js";
import { SiteTable } from "./site-table.js";
import { readSetting, saveSetting } from "./url-settings.js";
import { domainName, formatNumber, formatPercent } from "./value-format.js";

const PAGE_SIZES = [25, 50, 100, 200];
const PAGE_SIZE = 50;
const MAX_UNFILTERED = 12;  // members: a pool this small needs neither filter nor pages

const CAPACITY_NOTES = {
  true: "Capacities are in requests/s, estimated from the requests that the members have served",
  false: "Capacities are processor counts until the members have served enough requests",
};

export class PoolPanel {
  constructor(pool, plottedMembers) {
    this.firstRow = 0;
    const sort = { key: readSetting("sort", "name"), down: readSetting("down", "") === "1" };
    this.table = new MemberTable(pool.name, domainName("@", pool.zone), plottedMembers, sort);
    this.table.onChange = isSortChange => {
      if (isSortChange) this.saveSort();
      this.updateTable();
    };
    const id = `pool-${pool.name}`;
    const title = make("h2", "", pool.name);
    title.id = id;
    this.zone = make("span", "quiet");
    this.figures = make("dl", "figures");
    this.failOpenBanner = make("p", "banner");
    this.sites = new SiteTable(pool.name);
    this.stateChips = make("span", "states");
    this.legend = make("ul", "legend");
    this.legend.setAttribute("aria-label", "Colours of the parts of a score");
    this.shadow = make("ul", "shadow");
    this.element = make("section", "panel pool", make("div", "panel-head", make("div", "name", title, this.zone), this.figures));
    this.element.setAttribute("aria-labelledby", id);
    this.element.append(this.failOpenBanner, this.sites.element, this.makeTools(), makeScrollBox(`Members of pool ${pool.name}`, this.table.element), this.table.noMatch, this.shadow);
    setAttribute(this.failOpenBanner, "role", "status");
  }

  makeTools() {
    this.filter = make("input");
    this.filter.type = "search";
    this.filter.placeholder = "name, state, reason";
    this.filter.autocomplete = "off";
    this.filter.addEventListener("input", () => {
      this.firstRow = 0;
      this.updateTable();
    });
    const columns = [NAME_COLUMN, ...COLUMNS].filter(column => column.sort);
    this.sortSelect = makeSelect(columns.flatMap(({ key, title }) => [[key, `${title} ↑`], [`${key} down`, `${title} ↓`]]));
    this.sortSelect.addEventListener("change", () => {
      const [key, down] = this.sortSelect.value.split(" ");
      Object.assign(this.table.sort, { key, down: Boolean(down) });
      this.table.sortedAt = -Infinity;
      this.saveSort();
      this.updateTable();
    });
    this.saveSort();
    this.pageSize = makeSelect(PAGE_SIZES.map(size => [String(size), `${size} rows`]), String(PAGE_SIZE));
    this.pageSize.addEventListener("change", () => this.turnPage(0));
    this.previousPage = makeButton("‹", () => this.turnPage(-1));
    this.nextPage = makeButton("›", () => this.turnPage(1));
    setAttribute(this.previousPage, "aria-label", "Previous page");
    setAttribute(this.nextPage, "aria-label", "Next page");
    setAttribute(this.pageSize, "aria-label", "Rows per page");
    this.position = make("span", "place");
    this.position.setAttribute("aria-live", "polite");
    this.filterLabel = makeLabel("Filter", this.filter, "find");
    this.paging = make("span", "pages", this.position, this.previousPage, this.nextPage, makeLabel("", this.pageSize));
    this.columns = new ColumnChooser(() => this.table.showColumns());
    const sortLabel = makeLabel("Sort by", this.sortSelect, "sort");
    return make("div", "tools", this.filterLabel, sortLabel, this.stateChips, this.paging, this.columns.element, this.legend);
  }

  saveSort() {
    const { key, down } = this.table.sort;
    this.sortSelect.value = down ? `${key} down` : key;
    saveSetting("sort", key === "name" ? "" : key);
    saveSetting("down", down ? "1" : "");
  }

  turnPage(pages) {
    this.firstRow = Math.max(0, this.firstRow + pages * this.rowsPerPage);
    this.updateTable();
  }

  get rowsPerPage() {
    return Number(this.pageSize.value);
  }

  update(pool, statusAge) {
    this.pool = pool;
    pool.statusAge = statusAge;
    const isLarge = pool.members.length > MAX_UNFILTERED;
    setHidden(this.filterLabel, !isLarge);
    setText(this.zone, `zone ${domainName("@", pool.zone)}`);
    fillList(this.figures, [
      ["usable", `${formatNumber(pool.usable)} of ${formatNumber(pool.members.length)}`, pool.usable + pool.planned < pool.members.length ? "warn" : ""],
      ...(pool.planned ? [["planned", formatNumber(pool.planned), "", "Members that an operator has drained or forced down"]] : []),
      ["answers/s", formatNumber(pool.rate, 1, true)],
      ["requests/s", formatNumber(pool.requests, 1, true), "", "The sum of the request rates that the members report"],
      ...("measured" in pool ? [["capacity", pool.measured ? "measured" : "by processor count", "term-first", CAPACITY_NOTES[pool.measured]]] : []),
    ]);
    setHidden(this.failOpenBanner, !pool.fail_open);
    const reason = pool.fail_open_reason || "too few members are usable";
    setText(this.failOpenBanner, pool.fail_open ? `Fail open: ${reason}. Answers name every member that is not drained.` : "");
    this.sites.update(pool);
    this.updateStateChips(pool, isLarge);
    fillLegend(this.legend, pool.parts);
    this.updateShadow(pool);
    this.updateTable();
  }

  updateTable() {
    const count = this.table.update(this.pool, { filter: this.filter.value, from: this.firstRow, size: this.rowsPerPage });
    if (this.firstRow >= count && this.firstRow > 0) {
      this.firstRow = Math.max(0, count - 1 - ((count - 1) % this.rowsPerPage));
      this.updateTable();
      return;
    }
    const end = this.firstRow + this.rowsPerPage;
    setHidden(this.paging, this.pool.members.length <= PAGE_SIZE && this.rowsPerPage >= PAGE_SIZE);
    setText(this.position, count ? `${formatNumber(this.firstRow + 1)} to ${formatNumber(Math.min(count, end))} of ${formatNumber(count)}` : "none");
    this.previousPage.disabled = this.firstRow === 0;
    this.nextPage.disabled = end >= count;
  }

  tick(statusAge, sparklineValues, now) {
    this.pool.statusAge = statusAge;
    this.table.tick(this.pool, sparklineValues, now);
  }

  /** Show a chip for each state other than usable. A click filters the table by that state. */
  updateStateChips(pool, isLarge) {
    const states = Object.entries(pool.states).filter(([state]) => state !== "usable");
    const signature = JSON.stringify(states);
    setHidden(this.stateChips, !isLarge || !states.length);
    if (signature === this.shownStates) return;
    this.shownStates = signature;
    this.stateChips.replaceChildren(...states.map(([state, count]) => makeButton(`${formatNumber(count)} ${state}`, () => {
      this.filter.value = this.filter.value === state ? "" : state;
      this.firstRow = 0;
      this.updateTable();
    }, `chip ${state.replace(" ", "-")}`)));
  }

  updateShadow(pool) {
    setHidden(this.shadow, !pool.shadow.length);
    while (this.shadow.childElementCount > pool.shadow.length) this.shadow.lastElementChild.remove();
    while (this.shadow.childElementCount < pool.shadow.length) this.shadow.append(make("li"));
    pool.shadow.forEach(({ policy, shadow, score, diverted_share: share, diverted }, i) => {
      const scoreNote = score ? ` with score ${score}` : "";
      setText(this.shadow.children[i], `Shadow of ${policy}: ${shadow}${scoreNote} would have sent `
        + `${formatPercent(share ?? null, 1)} of the answers to another member (${formatNumber(diverted ?? null)} answers).`);
    });
  }
}
