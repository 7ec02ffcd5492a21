// The event log: the server's events, newest first, filtered by kind and level. If the server sends no events, the
// page logs changes of members' states instead.

import { make, makeLabel, makeSelect, setAttribute, setChildren, setHidden, setOptions, setText } from "./dom-elements.js";
import { fetchJsonIfPresent } from "./fetch-api.js";
import { displayState } from "./status-model.js";
import { formatTime } from "./value-format.js";

const MAX_KEPT = 4000;  // events: of 1,000 members that become silent, return and become silent again
const MAX_SHOWN = 200;  // rows
const MAX_FETCHED = 1000;  // events per request; the server allows no more
const LEVELS = ["info", "warning", "error"];

export class EventLog {
  /** ``onCaughtUp`` is called when past events have arrived. */
  constructor(element, announcer, onCaughtUp) {
    Object.assign(this, { announcer, onCaughtUp });
    this.eventsByKey = new Map();  // oldest first
    this.items = new WeakMap();  // event -> its list item
    this.serverSendsEvents = false;
    this.states = new Map();  // the last known state of each member
    this.isBehind = true;  // whether the server may have events that the page lacks
    this.knownUntil = 0;  // Unix seconds: while the page is behind, it may lack events after this time
    this.completeSince = Infinity;  // Unix seconds: the page has all events after this time
    this.isFetching = false;
    this.hasOnePool = false;
    const title = make("h2", "", "Events");
    title.id = "log-title";
    this.kindSelect = makeSelect([["", "all kinds"]], "");
    this.kindSelect.addEventListener("change", () => this.show());
    this.onlyProblems = make("input");
    this.onlyProblems.type = "checkbox";
    this.onlyProblems.addEventListener("change", () => this.show());
    const wrap = make("input");
    wrap.type = "checkbox";
    wrap.addEventListener("change", () => this.list.classList.toggle("wrapped", wrap.checked));
    this.list = make("ol", "events");
    this.list.tabIndex = 0;
    setAttribute(this.list, "aria-label", "Events, newest first");
    this.emptyNote = make("p", "empty");
    const tools = make("div", "tools", makeLabel("Kind", this.kindSelect), makeLabel("only warnings and errors", this.onlyProblems, "check"),
      makeLabel("wrap long lines", wrap, "check"));
    element.append(make("div", "panel-head", title), tools, this.list, this.emptyNote);
    this.show();
  }

  /** Note that events may be missed from now on, because there is no stream. */
  fallBehind() {
    if (this.isBehind) return;
    this.isBehind = true;
    this.knownUntil = this.events.findLast(({ isLocal }) => !isLocal)?.time ?? 0;
  }

  /** Fetch the events that happened before the page was opened or while the stream was down. */
  async catchUp() {
    if (!this.isBehind || this.isFetching) return;
    this.isFetching = true;
    try {
      const path = `/api/v1/log?since=${this.knownUntil}&limit=${MAX_FETCHED}`;
      const response = await fetchJsonIfPresent(path);
      const events = response?.events ?? [];
      // The events of a large pool's members may have displaced the event that says since when the pool fails open
      const older = events.length >= MAX_FETCHED ? await fetchJsonIfPresent(`${path}&kind=fail_open`) : null;
      this.isBehind = false;
      if (response) this.merge(events, older?.events ?? []);
    } catch {
      // The page header shows that the connection is lost; the next call tries again
    } finally {
      this.isFetching = false;
    }
  }

  /** Add the newest events from the server, and older ones that are not all there were at their time. */
  merge(events, older) {
    this.serverSendsEvents = true;
    if (events.length >= MAX_FETCHED) this.completeSince = events[0].time;  // the server may have left out older events
    else if (this.completeSince === Infinity) this.completeSince = 0;
    const all = [...this.events.filter(({ isLocal }) => !isLocal), ...older, ...events];  // the server's events replace the page's own
    this.eventsByKey.clear();
    for (const event of all.sort((a, b) => a.time - b.time || a.id - b.id)) this.add(event);
    this.show();
    this.onCaughtUp();
  }

  /** All kept events, oldest first. */
  get events() {
    return [...this.eventsByKey.values()];
  }

  /** Show an event that has just happened. */
  receive(event) {
    if (!this.add(event)) return;
    this.show();
    if (event.level !== "info") setText(this.announcer, `${event.level}: ${event.text}`);
  }

  /** Keep an event; return false if it was already known. */
  add(event) {
    const key = `${event.time} ${event.id} ${event.text}`;
    if (this.eventsByKey.has(key)) return false;
    this.eventsByKey.set(key, event);
    if (this.eventsByKey.size > MAX_KEPT) {
      const [oldest, { time }] = this.eventsByKey.entries().next().value;
      this.eventsByKey.delete(oldest);
      this.completeSince = Math.max(this.completeSince, time);
    }
    return true;
  }

  /** Texts name their pool only if there are several. */
  setPoolCount(count) {
    if ((count === 1) === this.hasOnePool) return;
    this.hasOnePool = count === 1;
    this.show();
  }

  /** If the server sends no events, log an event for each member whose state has changed. */
  detectStateChanges(model) {
    if (this.serverSendsEvents) return;
    for (const pool of model.pools) {
      for (const member of pool.members) {
        const key = `${pool.name}\n${member.name}`;
        const shown = displayState(member);
        const state = shown === "full" ? member.state : shown;  // a busy member may become full every few seconds
        const before = this.states.get(key);
        this.states.set(key, state);
        if (before === undefined || before === state) continue;
        const reason = member.guard || member.reason;
        this.receive({
          isLocal: true, id: 0, time: Date.now() / 1000, kind: "state", level: state === "usable" ? "info" : "warning",
          text: `${member.name} is ${state}${reason ? `: ${reason}` : ""}`, pool: pool.name, member: member.name,
        });
      }
    }
  }

  /** Return the list item of an event. It stays the same, so that it keeps the focus when events are added. */
  item(event) {
    let item = this.items.get(event);
    if (!item) this.items.set(event, item = makeEventItem(event));
    const prefix = `pool ${event.pool}: `;
    const isPrefixed = event.pool && event.text.startsWith(prefix);
    const [time, , text, , where] = item.children;
    setText(time, formatTime(event.time));
    setText(text, isPrefixed && this.hasOnePool ? event.text.slice(prefix.length) : event.text);
    setText(where, event.pool && !isPrefixed && !this.hasOnePool ? `pool ${event.pool}` : "");
    return item;
  }

  show() {
    const { events } = this;
    const kinds = [...new Set(events.map(({ kind }) => kind))].sort();
    setOptions(this.kindSelect, [["", "all kinds"], ...kinds.map(kind => [kind, kind.replaceAll("_", " ")])]);
    const chosenKind = this.kindSelect.value;
    const matches = ({ kind, level }) => (!chosenKind || kind === chosenKind) && (!this.onlyProblems.checked || level !== "info");
    const shown = events.filter(matches).slice(-MAX_SHOWN).reverse();
    setChildren(this.list, shown.map(event => this.item(event)));
    setHidden(this.list, !shown.length);
    setHidden(this.emptyNote, shown.length > 0);
    setText(this.emptyNote, events.length ? "No events match the selection." : this.isBehind ? "" : "No events yet.");
  }
}

function makeEventItem(event) {
  const level = LEVELS.includes(event.level) ? event.level : "info";
  const time = make("time");
  time.dateTime = new Date(event.time * 1000).toISOString();
  const kind = make("span", "kind", event.kind.replaceAll("_", " "));
  const text = make("p");
  text.title = event.text;
  const item = make("li", level, time, make("b", "level", level), text, kind, make("span", "where"));
  item.tabIndex = -1;  // the arrow keys, or a click, go to an event, which then shows all of its text
  return item;
}
