// "Why this server?": what the next answer for a name would be, and what speaks for each member.

import { arrange, attribute, button, className, figures, fill, headCell, hide, labelled, make, select, style, text } from "./dom.js";
import { NOTHING, figure, fullName, moment, number, percent, span } from "./format.js";
import { askFor } from "./feed.js";
import { keep, setting } from "./settings.js";
import { StateCell } from "./state.js";
import { scoreBar, showScore } from "./bars.js";

const REFRESH = 2000;  // milliseconds between two questions while it is watched
const MOST = 12;  // rows: those that are likeliest, of a larger pool, unless all are asked for

const value = (title, of) => ({
  title, right: true,
  build: cell => {
    cell.classList.add("right");
    return member => text(cell, of(member));
  },
});

const COLUMNS = [
  {
    title: "State",
    build: cell => {
      const shown = new StateCell(cell);
      return member => shown.update(member);
    },
  },
  {
    title: "Probability",
    build: cell => {
      const bar = make("div", "bar share");
      const words = make("span", "number");
      cell.append(make("div", "with-bar one", words, bar));
      return member => {
        text(words, percent(member.probability, 1));
        style(bar, "--share", `${100 * (member.probability ?? 0)}%`);
        style(bar, "--mark", "-9px");
      };
    },
  },
  value("Score", m => number(m.score)),
  {
    title: "Parts of the score",
    build: cell => {
      const bar = scoreBar();
      cell.append(bar);
      return (member, most) => showScore(bar, member.score_parts ?? {}, most);
    },
  },
  value("Capacity", m => `${figure(m.capacity)} (${percent(m.capacity_share)})`),
  value("Load", m => figure(m.load)),
  value("Charge", m => number(m.charge, 2, true)),
  value("Credit", m => number(m.credit, 2, true)),
  value("Left by other work", m => percent(m.left)),
  value("Ramp", m => percent(m.ramp)),
  value("Weight", m => (typeof m.weight === "number" ? `× ${number(m.weight, 2)}` : NOTHING)),
  value("Report", m => span(m.age_s)),
  value("Answers", m => `${number(m.answers)} (${percent(m.share)})`),
];

export class Explain {
  constructor(element) {
    this.element = element;
    this.name = setting("why", "");
    this.rows = new Map();
    this.seen = this.all = false;
    this.told = null;  // the newest explanation
    this.asking = false;
    const title = make("h2", "", "Why this server?");
    title.id = "explain-title";
    this.chooser = select([], "");
    this.chooser.addEventListener("change", () => this.choose(this.chooser.value));
    this.live = make("input");
    Object.assign(this.live, { type: "checkbox", checked: true });
    const again = button("Ask again", () => this.ask());
    const tools = make("div", "tools", labelled("Name", this.chooser), again, labelled("keep asking", this.live, "check"));
    this.next = make("p", "next");
    this.plan = make("ol", "plan");
    attribute(this.plan, "aria-label", "The next answers, in order");
    this.figures = make("dl", "figures small");
    this.error = make("p", "empty");
    attribute(this.error, "role", "status");
    this.body = make("tbody");
    const caption = make("caption", "unseen", "Members and what speaks for each");
    const head = make("tr", "", headCell("Member"), ...COLUMNS.map(({ title: words, right }) => headCell(words, right ? "right" : "")));
    this.table = make("table", "why", caption, make("thead", "", head), this.body);
    this.more = button("", () => {
      this.all = !this.all;
      this.show(this.told);
    });
    this.result = make("div", "", this.next, this.plan, this.figures, make("div", "scroll", this.table), this.more);
    this.result.hidden = true;
    element.append(make("div", "panel-head", title), tools, this.error, this.result);
    new IntersectionObserver(entries => {
      this.seen = entries.at(-1).isIntersecting;  // of several changes the last one
      if (this.seen && !this.told) this.ask();
    }).observe(element);
    setInterval(() => {
      if (this.live.checked && this.seen && !document.hidden) this.ask();
    }, REFRESH);
  }

  choose(name) {
    this.name = name;
    keep("why", name);
    this.ask();
  }

  /** The names that can be asked for, from the pools. */
  update(model) {
    const names = model.pools.flatMap(({ policies, zone }) => Object.keys(policies).map(owner => fullName(owner, zone)));
    const known = names.includes(this.name);
    fill(this.chooser, names.map(name => [name, name]), known ? this.name : names[0]);
    const first = !this.name && names.length;
    if (!known) this.name = names[0] ?? "";
    if (first && this.seen) this.ask();
  }

  async ask() {
    if (!this.name || this.asking) return;
    this.asking = true;
    const { name } = this;
    try {
      const told = await askFor(`/api/v1/explain?name=${encodeURIComponent(name)}`);
      if (name === this.name) this.show(told);
      text(this.error, "");
    } catch (error) {
      text(this.error, `No explanation: ${error.message}`);
    } finally {
      this.asking = false;
      hide(this.error, !this.error.textContent);
    }
    if (name !== this.name) this.ask();
  }

  show(told) {
    this.told = told;
    this.result.hidden = false;
    const members = [...(told.members ?? [])];
    this.next.replaceChildren(
      `The next answer for ${told.name} is `, make("b", "", told.next ?? "nobody"), told.why ? `, because ${told.why}.` : ".");
    const next = told.plan?.next ?? [];
    this.plan.replaceChildren(...next.map(name => make("li", "", name)));
    hide(this.plan, !next.length);
    figures(this.figures, [
      ["policy", `${told.policy ?? NOTHING}`.replaceAll("_", " ")],
      ["score", told.score_name ?? NOTHING],
      ["TTL", `${told.ttl ?? NOTHING} s`],
      ["answers/s", figure(told.answers_per_s)],
      ["requests/s", figure(told.requests_per_s)],
      ["answers it may give before the next report", number(told.answers_allowed)],
      ["plan", told.plan ? `${number(told.plan.given)} of ${number(told.plan.length)} given${told.plan.repeats ? ", then again" : ""}` : NOTHING],
      ["capacity", told.measured ? "measured" : "by processors"],
      ["reports every", span(told.interval_s)],
      ["process", told.workers > 1 ? `${told.worker + 1} of ${told.workers}` : "the only one"],
      ["at", told.time ? moment(told.time) : NOTHING],
      ...(told.fail_open ? [["fail open", told.fail_open_reason || "yes", "warn"]] : []),
    ]);
    if (members.length > MOST) members.sort((a, b) => b.probability - a.probability || b.score - a.score);
    this.showMembers(this.all ? members : members.slice(0, MOST), told);
    hide(this.more, members.length <= MOST);
    text(this.more, this.all ? `Only the likeliest ${MOST}` : `All ${members.length} members, not only the likeliest ${MOST}`);
  }

  showMembers(members, told) {
    const most = Math.max(0, ...members.map(({ score }) => score ?? 0));
    const rows = members.map(member => {
      const row = this.row(member.name);
      row.update(member, most, told);
      return row.element;
    });
    arrange(this.body, rows);
  }

  row(name) {
    let row = this.rows.get(name);
    if (row) return row;
    const sign = make("span", "sign");
    sign.setAttribute("aria-hidden", "true");
    const note = make("span", "quiet");
    const head = make("th", "member", sign, name, " ", note);
    head.scope = "row";
    const element = make("tr", "", head);
    const updates = COLUMNS.map(({ title, build }) => {
      const cell = make("td");
      cell.dataset.title = title;
      element.append(cell);
      return build(cell);
    });
    row = {
      element,
      update(told, most, { next }) {
        const member = { ...told, overrides: told.overrides ?? [], reason: told.reason ?? "", guard: told.guard ?? "" };
        className(element, name === next ? "is-next" : member.candidate === false ? "no-candidate" : "");
        text(sign, name === next ? "▶" : "");
        text(note, name === next ? "next" : member.candidate === false ? "not now" : member.suspect ? "suspect" : "");
        for (const update of updates) update(member, most);
      },
    };
    this.rows.set(name, row);
    return row;
  }
}
