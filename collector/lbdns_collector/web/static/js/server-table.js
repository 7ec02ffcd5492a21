// The table of a scaler's servers: their stage of life, since when and why, and their load; and the strip that counts the
// servers in each stage.

import { make, makeButton, makeHeaderCell, setAttribute, setChildren, setClass, setHidden, setText } from "./dom-elements.js";
import { FAILED, IN_SERVICE, STAGES, listedServers, sortByStage } from "./scaler-status.js";
import { NO_VALUE, formatDuration, formatNumber, formatReading, formatTime, pluralize } from "./value-format.js";

const MAX_ROWS = 12;  // servers that are shown unless the viewer requests all

const COLUMNS = [
  ["Stage", "stage", ({ state, held }) => (held ? `${state}, held` : state)],
  ["Since", "since", ({ since, age_s: age }) => `${formatTime(since)}, for ${formatDuration(age)}`],
  ["Requests/s", "right", ({ requests_per_s: rate }) => formatReading(rate)],
  ["CPU", "right", ({ cpu_percent: cpu }) => (typeof cpu === "number" ? `${formatNumber(cpu)} %` : formatNumber(cpu))],
  ["Connections", "right", ({ connections }) => formatNumber(connections)],
  ["Why", "why-stage", ({ reason }) => reason],
];
const stageClass = state => (state === IN_SERVICE ? "serving" : state === FAILED ? "failed" : state === "stopped" ? "stopped" : "changing");

export class ServerTable {
  constructor() {
    this.rows = new Map();  // name -> {element, cells}
    this.showsAll = false;
    this.strip = make("ul", "stages");
    setAttribute(this.strip, "aria-label", "Servers by stage of life");
    this.chips = new Map(STAGES.map(stage => [stage, makeChip(stage)]));
    const caption = make("caption", "unseen", "Servers by stage of life, with since when and why");
    const head = make("thead", "", make("tr", "", makeHeaderCell("Server"), ...COLUMNS.map(([title, className]) => makeHeaderCell(title, className))));
    this.body = make("tbody");
    this.table = make("table", "servers", caption, head, this.body);
    this.toggle = makeButton("", () => {
      this.showsAll = !this.showsAll;
      this.update(this.status);
    });
    this.elements = [this.strip, this.table, this.toggle];
  }

  update(status) {
    this.status = status;
    const { servers, counts } = status;
    this.updateStrip(counts);
    const listed = listedServers(servers, MAX_ROWS);
    const hiddenCount = servers.length - listed.length;
    const shown = this.showsAll ? sortByStage(servers) : listed;
    const rows = new Map(shown.map(server => [server.name, this.rows.get(server.name) ?? makeRow(server.name)]));
    this.rows = rows;  // rows of servers that are no longer shown are dropped
    for (const server of shown) updateRow(rows.get(server.name), server);
    setChildren(this.body, [...rows.values()].map(({ element }) => element));
    setHidden(this.table, !servers.length);
    setHidden(this.toggle, !hiddenCount);
    setText(this.toggle, this.showsAll ? "Show fewer servers" : `Show ${pluralize(hiddenCount, "more server")}`);
    setAttribute(this.toggle, "aria-expanded", String(this.showsAll));
  }

  updateStrip(counts) {
    const shown = STAGES.filter(stage => counts[stage] > 0 || stage === IN_SERVICE);
    for (const stage of shown) setText(this.chips.get(stage).count, formatNumber(counts[stage] ?? 0));
    setChildren(this.strip, shown.map(stage => this.chips.get(stage).element));
  }
}

function makeChip(stage) {
  const count = make("b");
  return { count, element: make("li", `stage-count ${stageClass(stage)}`, count, ` ${stage}`) };
}

function makeRow(name) {
  const nameCell = make("th", "", name);
  nameCell.scope = "row";
  const cells = COLUMNS.map(([title, className]) => {
    const cell = make("td", className);
    cell.dataset.title = title;
    return cell;
  });
  return { element: make("tr", "", nameCell, ...cells), cells };
}

function updateRow({ element, cells }, server) {
  setClass(element, stageClass(server.state));
  COLUMNS.forEach(([, className, textOf], i) => {
    const text = textOf(server);
    setText(cells[i], text);
    setClass(cells[i], text === NO_VALUE ? `${className} no-value` : className);
  });
}
