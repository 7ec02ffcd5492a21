// Entry point of the live page: connects the event stream to the status model and to all panels.

import { EventLog } from "./event-log.js";
import { ExplainPanel } from "./explain-panel.js";
import { PageHeader } from "./page-header.js";
import { PlottedMembers } from "./plotted-members.js";
import { PlotsPanel } from "./plots-panel.js";
import { PoolList } from "./pool-list.js";
import { RecentValues } from "./recent-values.js";
import { RejectedReports } from "./rejected-reports.js";
import { StatusModel } from "./status-model.js";
import { StatusStream } from "./status-stream.js";

const SECOND = 1000;  // milliseconds
const byId = id => document.getElementById(id);

const model = new StatusModel();
const recentValues = new RecentValues();
const eventLog = new EventLog(byId("log"), byId("announce"));
const header = new PageHeader({ connection: byId("connection"), disconnected: byId("disconnected"), server: byId("server") }, model);
const plottedMembers = new PlottedMembers(() => refresh());
const explainPanel = new ExplainPanel(byId("explain"));
const poolList = new PoolList(byId("pool-tabs"), byId("pools"), plottedMembers, name => explainPanel.choose(name));
const rejectedReports = new RejectedReports(byId("rejected"));
const plotsPanel = new PlotsPanel(byId("plots"), { model, recentValues, plottedMembers, events: () => eventLog.events });
let connected = false;

function refresh() {
  plottedMembers.update(model);
  poolList.update(model);
  plotsPanel.draw();
}

const stream = new StatusStream({
  onStatus(status, receivedAt) {
    const isFirst = model.receivedAt === 0;
    model.update(status, receivedAt);
    plottedMembers.update(model);
    header.update();
    poolList.update(model);
    rejectedReports.update(model);
    eventLog.detectStateChanges(model);
    explainPanel.update(model);
    if (!isFirst) return;
    plotsPanel.draw();
    eventLog.catchUp();
  },
  onEvent: event => eventLog.receive(event),
  onLink(state) {
    connected = state !== "disconnected";
    if (state !== "live") eventLog.isBehind = true;  // without a stream, events are missed, so fetch them later
    header.setLink(state);
  },
});

stream.start();
setInterval(() => {
  if (model.receivedAt === 0) return;
  header.tick();
  if (connected) {
    recentValues.record(model, Date.now() / SECOND);
    eventLog.catchUp();
  }
  if (document.hidden) return;
  poolList.tick(model);
  plotsPanel.tick();
}, SECOND);
