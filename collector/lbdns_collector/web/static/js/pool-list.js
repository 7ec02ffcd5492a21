// The list of pools: shows all pools while they are small, otherwise one at a time. Each pool has a tab with its state.

import { make, makeButton, setAttribute, setChildren, setClass, setHidden, setText } from "./dom-elements.js";
import { PoolPanel } from "./pool-panel.js";
import { readSetting, saveSetting } from "./url-settings.js";
import { formatNumber } from "./value-format.js";

const MAX_SHOWN_TOGETHER = 40;  // members: with more, only one pool is shown
const ALL_POOLS = "*";

export class PoolList {
  constructor(tabContainer, panelContainer, plottedMembers) {
    Object.assign(this, { panelContainer, plottedMembers });
    this.chosen = readSetting("tab", "");
    this.panels = new Map();
    this.shownPanels = [];
    this.shownPools = [];
    this.tabs = new Map();
    this.strip = make("nav", "strip");
    setAttribute(this.strip, "aria-label", "Pools");
    tabContainer.append(this.strip);
  }

  update(model) {
    this.model = model;
    const { pools } = model;
    const memberCount = pools.reduce((sum, pool) => sum + pool.members.length, 0);
    const isKnown = this.chosen === ALL_POOLS || model.pool(this.chosen);
    const chosen = isKnown ? this.chosen : memberCount <= MAX_SHOWN_TOGETHER ? ALL_POOLS : pools[0]?.name;
    setHidden(this.strip, pools.length < 2);
    this.updateTabs(pools, chosen, memberCount);
    const shownPools = pools.filter(({ name }) => chosen === ALL_POOLS || name === chosen);
    this.shownPools = shownPools;
    this.shownPanels = shownPools.map(pool => {
      const panel = this.panel(pool);
      panel.update(pool, model.statusAge);
      return panel;
    });
    setChildren(this.panelContainer, this.shownPanels.map(panel => panel.element));
  }

  tick(model, sparklineValues, now) {
    for (const panel of this.shownPanels) panel.tick(model.statusAge, sparklineValues, now);
  }

  panel(pool) {
    const key = `${pool.name}\n${pool.zone}`;
    let panel = this.panels.get(key);
    if (!panel) {
      panel = new PoolPanel(pool, this.plottedMembers);
      this.panels.set(key, panel);
    }
    return panel;
  }

  choose(name) {
    this.chosen = name;
    saveSetting("tab", name);
    this.update(this.model);
  }

  updateTabs(pools, chosen, memberCount) {
    const tabs = pools.map(pool => {
      const tab = this.tab(pool.name);
      const isHealthy = pool.usable + pool.planned === pool.members.length && !pool.fail_open;
      setText(tab.name, pool.name);
      setText(tab.usable, `${pool.usable} of ${pool.members.length} usable${pool.planned ? `, ${pool.planned} planned` : ""}`);
      setText(tab.rate, `${formatNumber(pool.rate, 1, true)} answers/s`);
      setText(tab.failOpen, pool.fail_open ? "fails open" : "");
      setClass(tab.element, `tab${isHealthy ? "" : " warn"}`);
      setAttribute(tab.element, "aria-pressed", String(chosen === pool.name));
      return tab.element;
    });
    if (memberCount <= MAX_SHOWN_TOGETHER) {
      const tab = this.tab(ALL_POOLS);
      setText(tab.name, "All pools");
      setClass(tab.element, "tab");
      setAttribute(tab.element, "aria-pressed", String(chosen === ALL_POOLS));
      tabs.unshift(tab.element);
    }
    setChildren(this.strip, tabs);
  }

  tab(name) {
    let tab = this.tabs.get(name);
    if (!tab) {
      tab = { name: make("b"), usable: make("span"), rate: make("span"), failOpen: make("span", "trouble") };
      tab.element = makeButton("", () => this.choose(name));
      tab.element.append(tab.name, tab.usable, tab.rate, tab.failOpen);
      this.tabs.set(name, tab);
    }
    return tab;
  }
}
