// The events: newest first, by kind, told at once. A server that doesn't tell them is watched for changes of state.

import { attribute, fill, hide, labelled, make, select, text } from "./dom.js";
import { moment } from "./format.js";
import { ask } from "./feed.js";
import { stateWord } from "./model.js";

const KEPT = 1000;  // events the page remembers
const SHOWN = 200;  // rows at a time
const FIRST = 500;  // events asked for at once
const LEVELS = { info: "info", warning: "warning", error: "error" };

export class Log {
  constructor(element, announce) {
    this.announce = announce;
    this.items = new Map();  // by what makes an event another one, oldest first
    this.told = false;  // whether the server tells events
    this.states = new Map();
    this.behind = true;
    this.asking = false;
    const title = make("h2", "", "Events");
    title.id = "log-title";
    this.kind = select([["", "all kinds"]], "");
    this.kind.addEventListener("change", () => this.show());
    this.grave = make("input");
    this.grave.type = "checkbox";
    this.grave.addEventListener("change", () => this.show());
    this.list = make("ol", "events");
    this.list.tabIndex = 0;
    attribute(this.list, "aria-label", "Events, newest first");
    this.empty = make("p", "empty");
    const tools = make("div", "tools", labelled("Kind", this.kind), labelled("only warnings and errors", this.grave, "check"));
    element.append(make("div", "panel-head", title), tools, this.list, this.empty);
    this.show();
  }

  /** Ask for what happened before, or while the stream was cut; again until there is an answer. */
  async catchUp() {
    if (!this.behind || this.asking) return;
    this.asking = true;
    try {
      const since = this.events.findLast(({ own }) => !own)?.time ?? 0;
      const answer = await ask(`/api/v1/log?since=${since}&limit=${FIRST}`);
      this.behind = false;
      if (answer) this.receive(answer.events ?? []);
    } catch {
      // The head tells that the connection is gone, and there is a next time
    } finally {
      this.asking = false;
    }
  }

  receive(events) {
    this.told = true;
    const all = [...this.events.filter(({ own }) => !own), ...events];  // what we saw ourselves it knows better
    this.items.clear();
    for (const event of all.sort((a, b) => a.time - b.time || a.id - b.id)) this.add(event);
    this.show();
  }

  /** Oldest first. */
  get events() {
    return [...this.items.values()];
  }

  /** One event that has just happened. */
  take(event) {
    if (!this.add(event)) return;
    this.show();
    if (event.level !== "info") text(this.announce, `${event.level}: ${event.text}`);
  }

  add(event) {
    const key = `${event.time} ${event.id} ${event.text}`;
    if (this.items.has(key)) return false;
    this.items.set(key, event);
    if (this.items.size > KEPT) this.items.delete(this.items.keys().next().value);
    return true;
  }

  /** Where the server tells no events, make them from states that changed. */
  watch(model) {
    if (this.told) return;
    for (const pool of model.pools) {
      for (const member of pool.members) {
        const key = `${pool.name}\n${member.name}`;
        const state = stateWord(member);
        const before = this.states.get(key);
        this.states.set(key, state);
        if (before === undefined || before === state) continue;
        const why = member.guard || member.reason;
        this.take({
          own: true, id: 0, time: Date.now() / 1000, kind: "state", level: state === "usable" ? "info" : "warning",
          text: `${member.name} is ${state}${why ? `: ${why}` : ""}`, pool: pool.name, member: member.name,
        });
      }
    }
  }

  show() {
    const { events } = this;
    const kinds = [...new Set(events.map(({ kind }) => kind))].sort();
    fill(this.kind, [["", "all kinds"], ...kinds.map(kind => [kind, kind.replaceAll("_", " ")])]);
    const { value } = this.kind;
    const fits = ({ kind, level }) => (!value || kind === value) && (!this.grave.checked || level !== "info");
    const wanted = events.filter(fits).slice(-SHOWN).reverse();
    this.list.replaceChildren(...wanted.map(event => entry(event)));
    hide(this.list, !wanted.length);
    hide(this.empty, wanted.length > 0);
    text(this.empty, events.length ? "None of this kind." : this.behind ? "" : "Nothing has happened yet.");
  }
}

function entry(event) {
  const level = LEVELS[event.level] ?? "info";
  const time = make("time", "", moment(event.time));
  time.dateTime = new Date(event.time * 1000).toISOString();
  const kind = make("span", "kind", event.kind.replaceAll("_", " "));
  const where = [event.pool && `pool ${event.pool}`].filter(Boolean).join(" ");
  return make("li", level, make("div", "event-head", time, make("b", "level", level), kind, make("span", "where", where)), make("p", "", event.text));
}
