// The columns of the table of members: how each is titled, sorted, made and updated.

import { make, text } from "./dom.js";
import { NOTHING, figure, number, percent, span } from "./format.js";
import { StateCell } from "./state.js";
import { scoreBar, shareBar, showScore, showShare } from "./bars.js";

const worst = ["silent", "alarm", "unknown", "drained", "usable"];
const metric = name => ({ metrics }) => metrics[name] ?? null;

function textual(value) {
  return () => ({ update: (cell, member, pool) => text(cell, value(member, pool)) });
}

/** CPU time in use, in percent of what there is. */
export function cpu({ metrics }) {
  return typeof metrics.cpu_idle === "number" ? Math.max(0, 100 - metrics.cpu_idle) : null;
}

/** ``sort`` gives what members are compared by; ``down``: the first press of the button sorts high to low. */
export const COLUMNS = [
  {
    key: "state", title: "State", sort: ({ state, guard }) => worst.indexOf(state) * 2 - (guard ? 1 : 0),
    build(cell) {
      const shown = new StateCell(cell);
      return { update: (_, member) => shown.update(member) };
    },
  },
  { key: "score", title: "Score", right: true, down: true, sort: m => m.score, build: textual(m => number(m.score)) },
  {
    key: "parts", title: "Parts of the score", sort: null,
    build(cell) {
      const bar = scoreBar();
      cell.append(bar);
      return { update: (_, member, pool) => showScore(bar, member.parts, pool.topScore) };
    },
  },
  {
    key: "age", title: "Report", note: "age", right: true, down: true, sort: m => m.age_s,
    build: textual((m, { waited }) => (m.age_s === null ? NOTHING : span(m.age_s + waited))),
  },
  {
    key: "share", title: "Share of answers", note: "of capacity", down: true, sort: m => m.share,
    build(cell) {
      const bar = shareBar();
      const share = make("span", "number");
      const capacity = make("span", "number quiet");
      cell.append(make("div", "with-bar", share, capacity, bar));
      return {
        update(_, member, pool) {
          text(share, percent(member.share, 1));
          text(capacity, percent(member.capacityShare, 1));
          showShare(bar, member.share, member.capacityShare, pool.topShare);
        },
      };
    },
  },
  {
    key: "rate", title: "Answers/s", right: true, down: true, sort: m => m.rate,
    build: textual(m => number(m.rate, 1, true)),
  },
  {
    key: "requests", title: "Requests/s", right: true, down: true, sort: metric("requests_per_s"),
    build: textual(m => number(m.metrics.requests_per_s, 1, true)),
  },
  {
    key: "busy", title: "Busy", note: "workers", right: true, down: true, sort: metric("busy_workers"),
    build: textual(m => figure(m.metrics.busy_workers)),
  },
  {
    key: "cpu", title: "CPU", right: true, down: true, sort: cpu,
    build: textual(m => (cpu(m) === null ? NOTHING : `${number(cpu(m))} %`)),
  },
];

export const NAME = { key: "name", title: "Member", sort: m => m.name };

const collator = new Intl.Collator("en", { numeric: true });

/** Compares two members by a column; those that lack the value come last, equal ones go by name. */
export function comparer(key, down) {
  const { sort } = [NAME, ...COLUMNS].find(column => column.key === key && column.sort) ?? NAME;
  const sign = down ? -1 : 1;
  return (a, b) => {
    const [x, y] = [sort(a), sort(b)];
    const known = (x === null || x === undefined) - (y === null || y === undefined);
    const order = typeof x === "string" ? collator.compare(x, y) : x - y;
    return known || sign * (order || 0) || collator.compare(a.name, b.name);
  };
}
