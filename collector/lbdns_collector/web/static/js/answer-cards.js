// The answer cards, at the top of the page: which member each name of a pool leads to now, and why; and which members the
// answers of the last minute named, compared with the members' capacity.

import { backupSentence } from "./backup-use.js";
import { make, setAttribute, setChildren, setClass, setHidden, setStyle, setText } from "./dom-elements.js";
import { COLOURS } from "./plotted-members.js";
import { displayState } from "./status-model.js";
import { domainName, formatNumber, formatPercent, NO_VALUE, pluralize } from "./value-format.js";

export class AnswerCards {
  /** ``explain`` is called with the name to explain when the viewer clicks on a name. */
  constructor(container, plottedMembers, explain) {
    Object.assign(this, { container, plottedMembers, explain });
    this.cards = new Map();
  }

  /** Show a card for each of ``pools``. ``backupStarts`` maps pools that use their backup to Unix seconds. */
  update(pools, backupStarts) {
    const cards = pools.map(pool => {
      let card = this.cards.get(pool.name);
      if (!card) this.cards.set(pool.name, card = new AnswerCard(pool.name, this.explain));
      card.update(pool, this.plottedMembers.poolState(pool.name).slots, backupStarts.get(pool.name));
      return card.element;
    });
    setChildren(this.container, cards);
  }
}

/** Return [name, member] of the answer that a pool leads with, or null if the server doesn't tell it. */
export function leadingAnswer(pool) {
  const [lead] = namesOf(pool);
  const next = lead && pool.next[lead.policy];
  return next ? [lead.owner, next.members[0]] : null;
}

/** Return the names of a pool, each with its policy; names of policy best come first. */
function namesOf(pool) {
  const names = Object.entries(pool.policies).map(([owner, policy]) => ({ owner, policy }));
  return names.sort((a, b) => (b.policy === "best") - (a.policy === "best"));  // a stable sort
}

class AnswerCard {
  constructor(pool, explain) {
    this.explain = explain;
    this.rows = [];
    const title = make("h2", "unseen", `Answers of pool ${pool}`);
    title.id = `answers-${pool}`;
    this.list = make("ul", "next-answers");
    this.backup = make("p", "uses-backup");
    this.strip = new AnswerStrip();
    this.element = make("section", "panel answer", title, this.list, this.backup, this.strip.element);
    setAttribute(this.element, "aria-labelledby", title.id);
  }

  update(pool, slots, backupSince) {
    const names = namesOf(pool);
    while (this.rows.length < names.length) this.rows.push(new NextAnswer(this.explain));
    names.forEach(({ owner, policy }, i) => this.rows[i].update(domainName(owner, pool.zone), policy, pool));
    setChildren(this.list, this.rows.slice(0, names.length).map(row => row.element));
    const usesBackup = backupSentence(pool, backupSince);
    setText(this.backup, usesBackup);
    setHidden(this.backup, !usesBackup);
    this.strip.update(pool, slots);
  }
}

/** One name of a pool, the members that its next answer names, the reason, and the members of the answers after it. */
class NextAnswer {
  constructor(explain) {
    this.name = make("a", "asked");
    this.name.href = "#explain";
    this.name.addEventListener("click", () => explain(this.name.textContent));
    this.member = make("b", "answered");
    this.why = make("p", "why-next");
    this.alternatives = make("p", "alternatives");
    this.following = make("p", "quiet following");
    const lead = make("p", "leads", this.name, make("span", "arrow", " → "), this.member);
    this.element = make("li", "", lead, this.alternatives, this.why, this.following);
  }

  update(name, policy, pool) {
    const next = pool.next[policy];
    const [first, ...following] = next?.members ?? [];
    const alternatives = next?.alternatives ?? [];  // the other members that the same answer names
    setText(this.name, name);
    setAttribute(this.name, "title", `Explain the answer for ${name} (policy ${policy.replaceAll("_", " ")})`);
    setText(this.member, first ?? NO_VALUE);
    setClass(this.member, pool.fail_open ? "answered trouble" : "answered");
    setText(this.why, next ? sentence(next.summary) : "");
    setText(this.alternatives, alternatives.length ? `then ${alternatives.join(", ")} in the same answer` : "");
    setText(this.following, following.length ? `${alternatives.length ? "next answers begin with" : "then"} ${following.join(", ")}` : "");
  }
}

const sentence = text => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** Return a note if the sentences above the bar contain other shares, since loads change. */
const plannedNote = ({ next }) => (
  Object.values(next).some(({ summary }) => summary.includes("% of the answers")) ? " (the shares stated above are those of the next answers)" : ""
);
const LEAST_SHARE = 5e-4;  // smaller shares would be shown as 0.0 %
const MAX_OUT = 2;  // members that are listed by name

/** Return which shares of the last minute's answers named members that answers no longer name: their segments may be too
 * narrow for a name. */
function sharesOut({ members, lastMinute }) {
  const out = members.filter(({ isInUse, lastMinute: count }) => !isInUse && count > 0);
  const text = (count, whom) => (count > LEAST_SHARE * lastMinute ? `; ${formatPercent(count / lastMinute, 1)} named ${whom}` : "");
  if (out.length <= MAX_OUT) return out.map(member => text(member.lastMinute, `${member.name}, which is ${displayState(member)}`)).join("");
  return text(out.reduce((sum, { lastMinute: count }) => sum + count, 0), `${out.length} members that answers no longer name`);
}

/** A bar with the members' shares of the last minute's answers, above a thin bar with their shares of the capacity. */
class AnswerStrip {
  constructor() {
    this.caption = make("p", "quiet");
    this.answers = make("div", "shares answers");
    this.capacity = make("div", "shares capacity");
    setAttribute(this.answers, "role", "img");
    setAttribute(this.capacity, "role", "img");
    this.note = make("p", "quiet capacity-note", "Capacity");
    this.element = make("div", "minute", this.caption, this.answers, this.capacity, this.note);
  }

  update(pool, slots) {
    const parts = partsOf(pool, slots);
    const isKnown = parts.some(part => part.capacity > 0);
    const count = Math.round(pool.lastMinute);
    const isUnknown = !count && pool.rate === null;  // the page has just been opened
    setText(this.caption, count ? `${pluralize(count, "answer")} in the last minute${sharesOut(pool)}${plannedNote(pool)}`
      : isUnknown ? "Counting the answers of the last minute" : "No answers in the last minute");
    setHidden(this.answers, !count);
    showSegments(this.answers, parts, part => part.answers, "Answers in the last minute");
    showSegments(this.capacity, parts, part => part.capacity, "Capacity");
    setHidden(this.capacity, !isKnown);
    setHidden(this.note, !isKnown);
    const usable = pool.members.some(({ isInUse }) => !isInUse) ? "usable " : "";
    setText(this.note, `Shares of the ${usable}capacity, ${pool.measured ? "as measured" : "by processor count"}`);
  }
}

/** Return the parts of a strip: the members that have a colour in the plots, and all others together. */
function partsOf(pool, slots) {
  const total = pool.lastMinute || 1;
  const parts = [];
  const others = { label: "", key: null, answers: 0, capacity: 0, count: 0 };
  for (const member of pool.members) {
    const [answers, capacity] = [member.lastMinute / total, member.capacityShare ?? 0];
    const slot = slots.get(member.name);
    if (slot === undefined) {
      others.answers += answers;
      others.capacity += capacity;
      others.count += 1;
    } else {
      parts.push({ label: member.name, key: slot % COLOURS, answers, capacity });
    }
  }
  if (others.count) parts.push({ ...others, label: `${formatNumber(others.count)} others` });
  return parts;
}

const makeSegment = () => make("span", "", make("span", "texts", make("span", "", make("b"), make("span"))));

function showSegments(bar, parts, shareOf, label) {
  while (bar.childElementCount < parts.length) bar.append(makeSegment());
  while (bar.childElementCount > parts.length) bar.lastElementChild.remove();
  parts.forEach((part, i) => {
    const segment = bar.children[i];
    const share = shareOf(part);
    setStyle(segment, "flex-grow", String(Math.round(share * 1e4)));
    setStyle(segment, "--ink", part.key === null ? "var(--quiet-line)" : `var(--series-${part.key})`);
    setHidden(segment, share <= 0);
    setAttribute(segment, "title", `${part.label}: ${formatPercent(share, 1)}`);
    const texts = segment.firstChild.firstChild;
    setText(texts.firstChild, part.label);
    setText(texts.lastChild, formatPercent(share));
  });
  const shares = parts.filter(part => shareOf(part) > 0).map(part => `${part.label} ${formatPercent(shareOf(part), 1)}`);
  setAttribute(bar, "aria-label", `${label}: ${shares.join(", ") || "none"}`);
}
