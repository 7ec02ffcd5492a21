// One pool: what it is, how it is, its members, and what is tried in its shadow.

import { attribute, button, className, figures, hide, labelled, make, select, text } from "./dom.js";
import { fullName, number, percent } from "./format.js";
import { COLUMNS, NAME } from "./columns.js";
import { keep, setting } from "./settings.js";
import { MemberTable } from "./table.js";
import { showLegend } from "./bars.js";

const SIZES = [25, 50, 100, 200];
const FEW = 12;  // members up to which nobody needs a filter or pages

export class PoolView {
  constructor(pool, picks) {
    this.name = pool.name;
    this.from = 0;
    const sort = { key: setting("sort", "name"), down: setting("down", "") === "1" };
    this.table = new MemberTable(pool.name, fullName("@", pool.zone), picks, sort);
    this.table.changed = chosen => {
      if (chosen) this.sorted();
      this.show();
    };
    const id = `pool-${pool.name}`;
    this.title = make("h2", "", pool.name);
    this.title.id = id;
    this.zone = make("span", "quiet");
    this.figures = make("dl", "figures");
    this.names = make("ul", "names");
    this.banner = make("p", "banner");
    this.states = make("span", "states");
    this.legend = make("ul", "legend");
    this.legend.setAttribute("aria-label", "Colours of the parts of a score");
    this.shadow = make("ul", "shadow");
    this.element = make("section", "panel pool", make("div", "panel-head", make("div", "name", this.title, this.zone), this.figures));
    this.element.setAttribute("aria-labelledby", id);
    this.element.append(this.banner, this.tools(), make("div", "scroll", this.table.element), this.table.empty, this.shadow);
    attribute(this.banner, "role", "status");
  }

  tools() {
    this.filter = make("input");
    this.filter.type = "search";
    this.filter.placeholder = "name, state, reason";
    this.filter.autocomplete = "off";
    this.filter.addEventListener("input", () => {
      this.from = 0;
      this.show();
    });
    const columns = [NAME, ...COLUMNS].filter(column => column.sort);
    this.sorting = select(columns.flatMap(({ key, title }) => [[key, `${title} ↑`], [`${key} down`, `${title} ↓`]]));
    this.sorting.addEventListener("change", () => {
      const [key, down] = this.sorting.value.split(" ");
      Object.assign(this.table.sort, { key, down: Boolean(down) });
      this.table.sorted = -Infinity;
      this.sorted();
      this.show();
    });
    this.sorted();
    this.size = select(SIZES.map(size => [String(size), `${size} rows`]), "50");
    this.size.addEventListener("change", () => this.turn(0));
    this.back = button("‹", () => this.turn(-1));
    this.on = button("›", () => this.turn(1));
    attribute(this.back, "aria-label", "Rows before");
    attribute(this.on, "aria-label", "Rows after");
    this.place = make("span", "place");
    this.place.setAttribute("aria-live", "polite");
    this.find = labelled("Filter", this.filter, "find");
    this.pages = make("span", "pages", this.place, this.back, this.on, labelled("", this.size));
    attribute(this.size, "aria-label", "Rows at a time");
    return make("div", "tools", this.names, this.find, labelled("Sort by", this.sorting, "sort"), this.states, this.pages, this.legend);
  }

  sorted() {
    const { key, down } = this.table.sort;
    this.sorting.value = down ? `${key} down` : key;
    keep("sort", key === "name" ? "" : key);
    keep("down", down ? "1" : "");
  }

  turn(pages) {
    this.from = Math.max(0, this.from + pages * this.rows);
    this.show();
  }

  get rows() {
    return Number(this.size.value);
  }

  update(pool, waited) {
    this.pool = pool;
    pool.waited = waited;
    const many = pool.members.length > FEW;
    hide(this.find, !many);
    className(this.names, many ? "names alone" : "names");
    text(this.zone, `zone ${fullName("@", pool.zone)}`);
    figures(this.figures, [
      ["usable", `${pool.usable} of ${pool.members.length}`, pool.usable < pool.members.length ? "warn" : ""],
      ["answers/s", number(pool.rate, 1, true)],
      ["requests/s", number(pool.requests, 1, true), "", "as the members' web servers report them"],
      ...("measured" in pool ? [["capacity", pool.measured ? "measured" : "by processors", "", MEASURED[pool.measured]]] : []),
    ]);
    this.showNames(pool);
    hide(this.banner, !pool.fail_open);
    text(this.banner, pool.fail_open ? `Fail open: ${pool.fail_open_reason || "too few are usable"}. Every member that is not drained is handed out.` : "");
    this.showStates(pool, many);
    showLegend(this.legend, pool.parts);
    this.showShadow(pool);
    this.show();
  }

  show() {
    const count = this.table.update(this.pool, { filter: this.filter.value, from: this.from, size: this.rows });
    if (this.from >= count && this.from > 0) {
      this.from = Math.max(0, count - 1 - ((count - 1) % this.rows));
      this.show();
      return;
    }
    hide(this.pages, this.pool.members.length <= SIZES[0]);
    text(this.place, count ? `${this.from + 1} to ${Math.min(count, this.from + this.rows)} of ${count}` : "none");
    this.back.disabled = this.from === 0;
    this.on.disabled = this.from + this.rows >= count;
  }

  tick(waited) {
    this.pool.waited = waited;
    this.table.tick(this.pool);
  }

  showNames(pool) {
    const names = Object.entries(pool.policies).map(([owner, policy]) => [fullName(owner, pool.zone), policy]);
    const signature = JSON.stringify(names);
    if (signature === this.named) return;
    this.named = signature;
    this.names.replaceChildren(...names.map(([name, policy]) => make("li", "", make("a", "", name), ` ${policy.replaceAll("_", " ")}`)));
    this.names.querySelectorAll("a").forEach((link, i) => {
      link.href = "#explain";
      link.title = `Why ${names[i][0]} leads where it leads`;
      link.addEventListener("click", () => this.explain(names[i][0]));
    });
  }

  /** Called with a name of the pool that somebody wants explained. */
  explain() {}

  showStates(pool, many) {
    const states = Object.entries(pool.states).filter(([state]) => state !== "usable");
    const signature = JSON.stringify(states);
    hide(this.states, !many || !states.length);
    if (signature === this.stated) return;
    this.stated = signature;
    this.states.replaceChildren(...states.map(([state, count]) => button(`${count} ${state}`, () => {
      this.filter.value = this.filter.value === state ? "" : state;
      this.from = 0;
      this.show();
    }, `chip ${state.replace(" ", "-")}`)));
  }

  showShadow(pool) {
    hide(this.shadow, !pool.shadow.length);
    while (this.shadow.childElementCount > pool.shadow.length) this.shadow.lastElementChild.remove();
    while (this.shadow.childElementCount < pool.shadow.length) this.shadow.append(make("li"));
    pool.shadow.forEach((tried, i) => {
      const by = tried.score ? ` by score ${tried.score}` : "";
      text(this.shadow.children[i], `In the shadow of ${tried.policy}: ${tried.shadow}${by} would have sent `
        + `${percent(tried.diverted_share ?? null, 1)} of the answers elsewhere (${number(tried.diverted ?? null)}).`);
    });
  }
}

const MEASURED = {
  true: "Capacities are requests/s as measured from what the members serve",
  false: "Capacities are numbers of processors until enough requests were served",
};
