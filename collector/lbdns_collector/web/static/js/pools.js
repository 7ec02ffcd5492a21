// All pools: one after another while they are small, else one at a time, chosen from a list that tells how each is.

import { arrange, attribute, className, hide, make, text } from "./dom.js";
import { number } from "./format.js";
import { keep, setting } from "./settings.js";
import { PoolView } from "./pool.js";

const ALL = 40;  // members that fit on the page together
const EVERY = "*";

export class Pools {
  constructor(choice, element, picks, explain) {
    Object.assign(this, { element, picks, explain });
    this.chosen = setting("pool", "");
    this.views = new Map();
    this.shown = [];
    this.tabs = new Map();
    this.strip = make("nav", "strip");
    attribute(this.strip, "aria-label", "Pools");
    choice.append(this.strip);
  }

  update(model) {
    this.model = model;
    const { pools } = model;
    const members = pools.reduce((sum, pool) => sum + pool.members.length, 0);
    const known = this.chosen === EVERY || model.pool(this.chosen);
    const chosen = known ? this.chosen : members <= ALL ? EVERY : pools[0]?.name;
    hide(this.strip, pools.length < 2);
    this.showStrip(pools, chosen, members);
    const shown = pools.filter(({ name }) => chosen === EVERY || name === chosen);
    this.shown = shown.map(pool => {
      const view = this.view(pool);
      view.update(pool, model.waited);
      return view;
    });
    arrange(this.element, this.shown.map(view => view.element));
  }

  tick(model) {
    for (const view of this.shown) view.tick(model.waited);
  }

  view(pool) {
    const key = `${pool.name}\n${pool.zone}`;
    let view = this.views.get(key);
    if (!view) {
      view = new PoolView(pool, this.picks);
      view.explain = this.explain;
      this.views.set(key, view);
    }
    return view;
  }

  choose(name) {
    this.chosen = name;
    keep("pool", name);
    this.update(this.model);
  }

  showStrip(pools, chosen, members) {
    const tabs = pools.map(pool => {
      const tab = this.tab(pool.name);
      const well = pool.usable === pool.members.length && !pool.fail_open;
      text(tab.name, pool.name);
      text(tab.usable, `${pool.usable} of ${pool.members.length} usable`);
      text(tab.rate, `${number(pool.rate, 1, true)} answers/s`);
      text(tab.trouble, pool.fail_open ? "fail open" : "");
      className(tab.element, `tab${well ? "" : " warn"}`);
      attribute(tab.element, "aria-pressed", String(chosen === pool.name));
      return tab.element;
    });
    if (members <= ALL) {
      const every = this.tab(EVERY);
      text(every.name, "All pools");
      className(every.element, "tab");
      attribute(every.element, "aria-pressed", String(chosen === EVERY));
      tabs.unshift(every.element);
    }
    arrange(this.strip, tabs);
  }

  tab(name) {
    let tab = this.tabs.get(name);
    if (!tab) {
      tab = { name: make("b"), usable: make("span"), rate: make("span"), trouble: make("span", "trouble"), element: make("button") };
      tab.element.type = "button";
      tab.element.append(tab.name, tab.usable, tab.rate, tab.trouble);
      tab.element.addEventListener("click", () => this.choose(name));
      this.tabs.set(name, tab);
    }
    return tab;
  }
}
