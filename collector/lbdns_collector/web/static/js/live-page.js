// Entry point of the live page: connects the event stream to the status model and to all panels.

import { AnswerCards, leadingAnswer } from "./answer-cards.js";
import { backupStarts } from "./backup-use.js";
import { setHidden, setText } from "./dom-elements.js";
import { HOUR, findEndedProblems } from "./ended-problems.js";
import { EventLog } from "./event-log.js";
import { ExplainPanel } from "./explain-panel.js";
import { listenForKeys } from "./keyboard.js";
import { KeyboardHelp } from "./keyboard-help.js";
import { LastMinute } from "./last-minute.js";
import { PageHeader } from "./page-header.js";
import { PlotsPanel } from "./plots-panel.js";
import { PlottedMembers } from "./plotted-members.js";
import { PoolList } from "./pool-list.js";
import { ProblemPanel } from "./problem-panel.js";
import { findProblems } from "./problems.js";
import { RecentValues } from "./recent-values.js";
import { RejectedReports } from "./rejected-reports.js";
import { ScalerPanel } from "./scaler-panel.js";
import { SPARKLINE_SECONDS, darkMode } from "./sparkline.js";
import { SparklineValues } from "./sparkline-values.js";
import { SteerDialog } from "./steer-dialog.js";
import { StatusModel } from "./status-model.js";
import { StatusStream } from "./status-stream.js";
import { TabSign } from "./tab-sign.js";
import { FullMembers } from "./full-members.js";
import { UnservedMembers } from "./unserved-members.js";
import { readSetting } from "./url-settings.js";

const SECOND = 1000;  // milliseconds
const byId = id => document.getElementById(id);

const alone = readSetting("pool", "");  // the only pool on the page, or empty for all pools
const model = new StatusModel(alone);
const lastMinute = new LastMinute();
const unservedMembers = new UnservedMembers();
const fullMembers = new FullMembers();
const recentValues = new RecentValues();
const sparklineValues = new SparklineValues(recentValues, model, SPARKLINE_SECONDS);
const eventLog = new EventLog(byId("log"), byId("announce"), () => updateProblems());
const header = new PageHeader({ connection: byId("connection"), health: byId("health"), disconnected: byId("disconnected"), server: byId("server"), version: byId("version") }, model);
const plottedMembers = new PlottedMembers(() => refresh());
const explainPanel = new ExplainPanel(byId("explain"), () => updateAnswers());
const poolList = new PoolList(byId("pool-tabs"), byId("pools"), plottedMembers);
const answerCards = new AnswerCards(byId("answers"), plottedMembers, name => explainPanel.choose(name));
const problemPanel = new ProblemPanel(byId("problems"));
const tabSign = new TabSign(byId("icon"));
const rejectedReports = new RejectedReports(byId("rejected"));
const scalerPanel = new ScalerPanel(byId("scaler"), byId("scaler-link"), model);
const plotsPanel = new PlotsPanel(byId("plots"), { model, recentValues, plottedMembers, events: () => eventLog.events });
let connected = false;
document.body.classList.toggle("alone", alone !== "");

function refresh() {
  plottedMembers.update(model);
  poolList.update(model);
  updateAnswers();
  plotsPanel.draw();
}

function updateAnswers() {
  explainPanel.replaceAnswer(model);
  answerCards.update(poolList.shownPools, backupStarts(eventLog.events));
  tabSign.setAnswer(poolList.shownPools.length ? leadingAnswer(poolList.shownPools[0]) : null);
  const isMissing = alone !== "" && !model.pools.length;
  setHidden(byId("no-pool"), !isMissing);
  setText(byId("no-pool"), isMissing ? `The server has no pool ${alone}. Remove pool=${alone} from the address to see all pools.` : "");
}

function updateProblems() {
  const { events, completeSince } = eventLog;
  const problems = findProblems(model, events, Date.now() / SECOND - model.statusAge);
  const now = model.serverTime ?? Date.now() / SECOND;
  const ended = findEndedProblems(events.filter(({ pool }) => !pool || model.pool(pool)), now - HOUR);
  const knownSpan = now - Math.max(completeSince, model.server.started ?? 0);
  problemPanel.update(problems, ended, now, knownSpan);
  header.setProblems(problems, ended, knownSpan);
  tabSign.setProblems(problems);
}

const stream = new StatusStream({
  onStatus(status, receivedAt) {
    const isFirst = model.receivedAt === 0;
    model.update(status, receivedAt);
    lastMinute.record(model);
    unservedMembers.record(model);
    fullMembers.record(model, model.serverTime ?? Date.now() / SECOND);
    plottedMembers.update(model);
    header.update();
    poolList.update(model);
    updateAnswers();
    rejectedReports.update(model);
    scalerPanel.update();
    document.body.classList.toggle("steerable", model.server.steer === true);
    eventLog.setPoolCount(model.pools.length);
    eventLog.detectStateChanges(model);
    updateProblems();
    explainPanel.update(model);
    if (!isFirst) return;
    plotsPanel.draw();
    eventLog.catchUp();
  },
  onEvent: event => eventLog.receive(event),
  onLink(state) {
    connected = state !== "disconnected";
    if (state !== "live") eventLog.fallBehind();  // without a stream, events are missed, so fetch them later
    header.setLink(state);
    tabSign.setConnected(header.isConnected);
  },
});

const steerDialog = new SteerDialog();
document.addEventListener("steer", ({ detail }) => steerDialog.open(detail.member, detail.pool));
const keyboardHelp = new KeyboardHelp(byId("keys"));
listenForKeys({ showHelp: () => keyboardHelp.open(), endZoom: () => plotsPanel.endZoom() });
stream.start();
darkMode.addEventListener("change", () => poolList.tick(model, sparklineValues, Date.now() / SECOND));
setInterval(() => {
  if (model.receivedAt === 0) return;
  header.tick();
  tabSign.setConnected(header.isConnected);
  if (connected) {
    recentValues.record(model, Date.now() / SECOND);
    eventLog.catchUp();
  }
  if (document.hidden) return;
  poolList.tick(model, sparklineValues, Date.now() / SECOND);
  plotsPanel.tick();
}, SECOND);
