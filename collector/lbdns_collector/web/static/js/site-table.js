// The table of a pool's sites: usable members, load, and which sites the clients near each site get. It is hidden if the
// pool has no sites.

import { make, makeHeaderCell, setChildren, setClass, setHidden, setText } from "./dom-elements.js";
import { NO_VALUE, formatNumber, formatPercent } from "./value-format.js";

const FULL = 0.9;  // of the capacity: from here on, a site gets no clients of other sites
const PROBE = 0.011;  // share of the answers: these only measure the load of sites that clients do not use
const NONE_NEAR = "no clients are near it";

const COLUMNS = [
  ["Usable", "right", ({ site }) => `${formatNumber(site.usable)} of ${formatNumber(site.members.length)}`],
  ["Load", "right", ({ site }) => loadText(site)],
  ["At home", "right", ({ order }) => order ? formatPercent(order.shares[0]) : NO_VALUE],
  ["Elsewhere", "elsewhere", elsewhereText],
];

export class SiteTable {
  constructor(poolName) {
    this.rows = new Map();
    const caption = make("caption", "unseen", `Sites of pool ${poolName}: their members, their load, and where the clients near them go`);
    const head = make("thead", "", make("tr", "", makeHeaderCell("Site"), ...COLUMNS.map(([title, className]) => makeHeaderCell(title, className))));
    this.body = make("tbody");
    this.element = make("table", "sites", caption, head, this.body);
    setHidden(this.element, true);
  }

  /** ``pool`` is a pool of the status. Servers of earlier versions send no sites. */
  update({ sites = [], orders = [] }) {
    setHidden(this.element, !sites.length);
    const rows = new Map();
    for (const site of sites) {
      const row = this.rows.get(site.name) ?? makeRow();
      const order = leastAtHome(orders.filter(({ sites: [nearest] }) => nearest === site.name));
      setText(row.firstChild, site.name);
      COLUMNS.forEach(([, , textOf], i) => setText(row.children[i + 1], textOf({ site, order })));
      setClass(row.children[1], `right ${site.usable < site.members.length ? "warn" : ""}`.trim());
      setClass(row.children[2], `right ${site.utilization >= FULL ? "warn" : ""}`.trim());
      rows.set(site.name, row);
    }
    this.rows = rows;
    setChildren(this.body, [...rows.values()]);
  }
}

function makeRow() {
  const name = make("th");
  name.scope = "row";
  return make("tr", "", name, ...COLUMNS.map(([title, className]) => {
    const cell = make("td", className);
    cell.dataset.title = title;
    return cell;
  }));
}

/** Clients near a site may have different orders of the other sites. Return the order that keeps fewest of them. */
function leastAtHome(orders) {
  return orders.reduce((least, order) => least && least.shares[0] <= order.shares[0] ? least : order, null);
}

function loadText({ usable, utilization }) {
  if (!usable) return NO_VALUE;
  return typeof utilization === "number" ? formatPercent(utilization) : "unknown";
}

function elsewhereText({ order }) {
  if (!order) return NONE_NEAR;
  const used = order.sites.map((name, i) => [name, order.shares[i]]).slice(1).filter(([, share]) => share > PROBE);
  if (!used.length) return NO_VALUE;
  const sites = used.map(([name, share]) => `${formatPercent(share)} ${name}`).join(", ");
  return order.why ? `${sites}: the site ${order.why}` : sites;
}
