// The panel "Why this server?" shows the member that will be selected next for a name, and explains the selection.

import {
  fillList, make, makeButton, makeHeaderCell, makeLabel, makeScrollBox, makeSelect, setAttribute, setChildren, setClass,
  setHidden, setOptions, setStyle, setText,
} from "./dom-elements.js";
import { answerWords, decisionText } from "./explain-decision.js";
import { fetchJson } from "./fetch-api.js";
import { MemberStateCell } from "./member-state-cell.js";
import { drawScoreBar, makeScoreBar } from "./score-share-bars.js";
import { isOld } from "./status-model.js";
import { readSetting, saveSetting } from "./url-settings.js";
import { NO_VALUE, domainName, formatDuration, formatNumber, formatPercent, formatReading, formatTime } from "./value-format.js";

const REFRESH_INTERVAL = 2000;  // milliseconds between two requests while the panel is visible
const CURRENT_FOR = 3 * REFRESH_INTERVAL;  // while the panel is refreshed, its answer also stands at the top of the page
const HEADLINE_ANSWERS = 5;  // the next answers at the top of the page
const MAX_ROWS = 12;  // members of a larger pool that are shown unless the viewer requests all

const valueColumn = (title, valueOf) => ({
  title, right: true,
  build: cell => {
    cell.classList.add("right");
    return member => setText(cell, valueOf(member));
  },
});

/** Return a share in parentheses, or nothing if it is unknown. It has as many digits as in the reasons above, and no place
 * for a line break. */
function shareNote(share) {
  if (typeof share !== "number") return "";
  return ` (${formatPercent(share, share > 0 && share < 0.0995 ? 1 : 0).replace(" ", "\u00a0")})`;
}

const COLUMNS = [
  {
    title: "State",
    build: cell => {
      const stateCell = new MemberStateCell(cell);
      return member => stateCell.update(member);
    },
  },
  {
    title: "Probability",
    build: cell => {
      const bar = make("div", "bar share");
      const percentage = make("span", "number");
      cell.append(make("div", "with-bar one", percentage, bar));
      return member => {
        setText(percentage, formatPercent(member.probability, 1));
        setStyle(bar, "--share", `${100 * (member.probability ?? 0)}%`);
        setStyle(bar, "--mark", "-9px");
      };
    },
  },
  valueColumn("Score", m => formatNumber(isOld(m) ? null : m.score)),
  {
    title: "Parts of the score",
    build: cell => {
      const bar = makeScoreBar();
      cell.append(bar);
      return (member, maxScore) => drawScoreBar(bar, isOld(member) ? {} : member.score_parts ?? {}, maxScore);
    },
  },
  valueColumn("Capacity", m => `${formatReading(m.capacity)}${shareNote(m.usableShare)}`),
  valueColumn("Load", m => formatReading(isOld(m) ? null : m.load)),
  valueColumn("Charge", m => formatNumber(m.charge, 2, true)),
  valueColumn("Credit", m => formatNumber(m.credit, 2, true)),
  valueColumn("Available capacity", m => formatPercent(m.left)),
  valueColumn("Other tasks", m => formatNumber(m.other_tasks, 1, true)),
  valueColumn("Slow start", m => formatPercent(m.ramp)),
  valueColumn("Weight", m => (typeof m.weight === "number" ? `× ${formatNumber(m.weight, 2)}` : NO_VALUE)),
  valueColumn("Report age", m => formatDuration(m.age_s)),
  valueColumn("Answers", m => `${formatNumber(m.answers)}${shareNote(m.share)}`),
];

export class ExplainPanel {
  /** ``onExplained`` is called with no arguments when a new explanation has arrived. */
  constructor(element, onExplained = () => {}) {
    this.onExplained = onExplained;
    this.name = readSetting("why", "");
    this.rows = new Map();
    this.isVisible = this.showsAll = this.isFetching = false;
    this.explanation = null;  // the newest one
    this.explainedAt = -Infinity;  // milliseconds, performance.now()
    const title = make("h2", "", "Why this server?");
    title.id = "explain-title";
    this.nameSelect = makeSelect([], "");
    this.nameSelect.addEventListener("change", () => this.choose(this.nameSelect.value));
    this.autoRefresh = make("input");
    Object.assign(this.autoRefresh, { type: "checkbox", checked: true });
    const refresh = makeButton("Refresh", () => this.fetch());
    const tools = make("div", "tools", makeLabel("Name", this.nameSelect), refresh, makeLabel("refresh automatically", this.autoRefresh, "check"));
    this.next = make("p", "next");
    this.decision = make("p", "decision quiet");
    this.plan = make("ol", "plan");
    setAttribute(this.plan, "aria-label", "The next answers, in order");
    this.figures = make("dl", "figures small");
    this.error = make("p", "empty");
    setAttribute(this.error, "role", "status");
    this.body = make("tbody");
    const caption = make("caption", "unseen", "Members, with the values that determine the probability that each member is selected");
    const headerCells = COLUMNS.map(({ title: heading, right }) => makeHeaderCell(heading, right ? "right" : ""));
    const head = make("thead", "", make("tr", "", makeHeaderCell("Member"), ...headerCells));
    const table = make("table", "why", caption, head, this.body);
    this.toggleAll = makeButton("", () => {
      this.showsAll = !this.showsAll;
      this.show(this.explanation);
    });
    this.result = make("div", "", this.next, this.decision, this.plan, this.figures, makeScrollBox("Members in the explanation", table), this.toggleAll);
    this.result.hidden = true;
    element.append(make("div", "panel-head", title), tools, this.error, this.result);
    new IntersectionObserver(entries => {
      this.isVisible = entries.at(-1).isIntersecting;  // the last entry is the newest
      if (this.isVisible && this.mayRefresh) this.fetch();
    }).observe(element);
    setInterval(() => {
      if (this.isRefreshed) this.fetch();
    }, REFRESH_INTERVAL);
  }

  choose(name) {
    this.name = name;
    saveSetting("why", name);
    this.fetch();
  }

  get mayRefresh() {
    return this.autoRefresh.checked || !this.explanation;
  }

  get isRefreshed() {
    return this.autoRefresh.checked && this.isVisible && !document.hidden;
  }

  /** Whether the explanation is of this moment: then the top of the page shows the same answer. */
  get isCurrent() {
    return this.isRefreshed && this.explanation?.name === this.name && performance.now() - this.explainedAt < CURRENT_FOR;
  }

  /** Put the explained answer into ``model`` in place of the status's, which is of another moment, so that the whole page
   * names the same member and the same reason. */
  replaceAnswer(model) {
    if (!this.explanation) return;
    const { pool, policy, plan, alternatives = [], why, summary } = this.explanation;
    const next = model.pool(pool)?.next;
    const isCurrent = this.isCurrent && summary !== undefined && next?.[policy] !== undefined;
    if (isCurrent) next[policy] = { ...next[policy], members: plan.next.slice(0, HEADLINE_ANSWERS), alternatives, why, summary };
    this.showAnswer(isCurrent);
  }

  showAnswer(isCurrent) {
    const [before, after] = answerWords(this.explanation, isCurrent);
    if (!this.next.firstChild) this.next.append(make("span"), make("b"), make("span"));
    const [first, member, last] = this.next.children;
    setText(first, before);
    setText(member, this.explanation.next ?? "no member");
    setText(last, after);
  }

  /** Update the list of names that can be explained. */
  update(model) {
    const names = model.pools.flatMap(({ policies, zone }) => Object.keys(policies).map(owner => domainName(owner, zone)));
    const isKnown = names.includes(this.name);
    setOptions(this.nameSelect, names.map(name => [name, name]), isKnown ? this.name : names[0]);
    const isFirst = !this.name && names.length;
    if (!isKnown) this.name = names[0] ?? "";
    if (isFirst && this.isVisible) this.fetch();
  }

  async fetch() {
    if (!this.name || this.isFetching) return;
    this.isFetching = true;
    const { name } = this;
    try {
      const explanation = await fetchJson(`/api/v1/explain?name=${encodeURIComponent(name)}`);
      if (name === this.name) {
        this.explainedAt = performance.now();
        this.show(explanation);
        this.onExplained();
      }
      setText(this.error, "");
    } catch (error) {
      setText(this.error, `The answer for ${name} could not be explained: ${error.message}`);
    } finally {
      this.isFetching = false;
      setHidden(this.error, !this.error.textContent);
    }
    if (name !== this.name) this.fetch();
  }

  show(explanation) {
    this.explanation = explanation;
    this.result.hidden = false;
    const { plan } = explanation;
    const members = withUsableShares(explanation.members ?? []);
    setText(this.decision, decisionText(explanation));
    const nextMembers = plan?.next ?? [];
    this.plan.replaceChildren(...nextMembers.map(member => make("li", "", member)));
    setHidden(this.plan, !nextMembers.length);
    fillList(this.figures, figuresOf(explanation));
    const isLarge = members.length > MAX_ROWS;
    const isNext = ({ name }) => name === explanation.next;
    const sorted = isLarge ? members.toSorted((a, b) => isNext(b) - isNext(a) || b.probability - a.probability || b.score - a.score) : members;
    this.showMembers(this.showsAll ? sorted : sorted.slice(0, MAX_ROWS), explanation);
    setHidden(this.toggleAll, !isLarge);
    setText(this.toggleAll, this.showsAll ? `Show only the ${MAX_ROWS} most likely members` : `Show all ${members.length} members`);
  }

  showMembers(members, { next }) {
    const maxScore = Math.max(0, ...members.map(member => (isOld(member) ? 0 : member.score ?? 0)));
    setChildren(this.body, members.map(member => {
      const row = this.row(member.name);
      row.update(member, maxScore, next);
      return row.element;
    }));
  }

  row(name) {
    let row = this.rows.get(name);
    if (row) return row;
    const sign = make("span", "sign");
    sign.setAttribute("aria-hidden", "true");
    const note = make("span", "quiet");
    const nameCell = make("th", "member", sign, name, " ", note);
    nameCell.scope = "row";
    const element = make("tr", "", nameCell);
    const updates = COLUMNS.map(({ title, build }) => {
      const cell = make("td");
      cell.dataset.title = title;
      element.append(cell);
      return build(cell);
    });
    row = {
      element,
      update(member, maxScore, next) {
        const isNext = name === next;
        const isExcluded = member.candidate === false;
        setClass(element, isNext ? "is-next" : isExcluded ? "no-candidate" : "");
        setText(sign, isNext ? "▶" : "");
        setText(note, isNext ? "next" : isExcluded ? "excluded" : member.suspect ? "report overdue" : "");
        const shown = { ...member, parts: member.score_parts, overrides: member.overrides ?? [], reason: member.reason ?? "", guard: member.guard ?? "" };
        for (const update of updates) update(shown, maxScore);
      },
    };
    this.rows.set(name, row);
    return row;
  }
}

/** Add ``usableShare`` to each member that answers can name: its share of the capacity of these members, as in the reasons
 * at the top of the page. */
function withUsableShares(members) {
  const capacityOf = ({ candidate, capacity }) => (candidate === false ? 0 : capacity ?? 0);
  const whole = members.reduce((sum, member) => sum + capacityOf(member), 0);
  return members.map(member => ({ ...member, usableShare: member.candidate !== false && whole > 0 ? capacityOf(member) / whole : null }));
}

/** Return how much of a plan has been used. A short plan is repeated many times. */
function planText({ given, length, repeats }) {
  if (repeats && given > length) return `all ${formatNumber(length)} used, now repeated`;
  return `${formatNumber(given)} of ${formatNumber(length)} used${repeats ? ", then repeated" : ""}`;
}

/** Return the list of values that apply to the whole explanation. */
function figuresOf(explanation) {
  const { policy, plan, workers, time } = explanation;
  return [
    ["policy", `${policy ?? NO_VALUE}`.replaceAll("_", " ")],
    ["score", explanation.score_name ?? NO_VALUE],
    ["TTL", `${explanation.ttl ?? NO_VALUE} s`],
    ["answers/s", formatReading(explanation.answers_per_s)],
    ["requests/s", formatReading(explanation.requests_per_s)],
    ["light-traffic answers left", formatNumber(explanation.answers_allowed), "",
      "Answers until the next report that still count as light traffic"],
    ["plan", plan ? planText(plan) : NO_VALUE],
    ["capacity", explanation.measured ? "measured" : "by processor count"],
    ["report interval", formatDuration(explanation.interval_s)],
    ["process", workers > 1 ? `${explanation.worker + 1} of ${workers}` : "1 of 1"],
    ["time", time ? formatTime(time) : NO_VALUE],
    ...(explanation.fail_open ? [["fail open", explanation.fail_open_reason || "yes", "warn"]] : []),
  ];
}
