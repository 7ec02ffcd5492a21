// The columns of the member table: the title of each column, and how its cells are sorted, created and updated.

import { make, setStyle, setText } from "./dom-elements.js";
import { MemberStateCell } from "./member-state-cell.js";
import { displayState } from "./status-model.js";
import { drawScoreBar, drawShareBar, makeScoreBar, makeShareBar } from "./score-share-bars.js";
import { Sparkline } from "./sparkline.js";
import { NO_VALUE, formatDuration, formatNumber, formatPercent, formatReading } from "./value-format.js";

const STATE_ORDER = ["silent", "alarm", "forced down", "unknown", "drained", "usable"];  // most urgent first
/** Return how many decimal places tell apart the members' shares: in a pool of 1,000 members, all are about 0.1 %. */
const shareDigits = ({ topShare }) => (topShare < 0.01 ? 2 : 1);
const metricOf = name => ({ metrics }) => metrics[name] ?? null;

/** Return a ``build`` function for a cell that contains only text. */
function textCell(valueOf) {
  return () => ({ update: (cell, member, pool) => setText(cell, valueOf(member, pool)) });
}

/** Fill a cell with a number and a sparkline of ``metric``. */
function sparklineCell(cell, number, { text, metric, valueOf, maximum }) {
  const sparkline = new Sparkline();
  cell.append(make("div", "with-line", number, sparkline.element));
  return {
    metric,
    line: sparkline.element,
    update: (_, member) => setText(number, text(member)),
    drawLine(member, pool, sparklineValues, now) {
      const values = sparklineValues.of(pool.name, metric, member.name, now);
      sparkline.draw(values.map(value => (value === null ? null : valueOf(value))), maximum(pool));
    },
  };
}

/** Return the CPU time in use, in percent, or null if the member doesn't report it. */
function cpuInUse({ metrics }) {
  return typeof metrics.cpu_idle === "number" ? Math.max(0, 100 - metrics.cpu_idle) : null;
}

export const NAME_COLUMN = { key: "name", title: "Member", sort: member => member.name };

/** ``sort`` returns the value to sort by (null: the column can't be sorted). With ``down``, the first click on the heading
 * sorts from high to low. ``scale`` returns the text below the title, which states the scale of the bars. ``build`` fills
 * a new cell and returns its ``update(cell, member, pool)``, and ``tick`` with the same arguments if the cell shows the age
 * of the report, which grows between two statuses. */
export const COLUMNS = [
  {
    key: "state", title: "State", sort: member => {
      const state = displayState(member);
      const isLimited = member.guard || state === "full";
      return STATE_ORDER.indexOf(STATE_ORDER.includes(state) ? state : "usable") * 2 - (isLimited ? 1 : 0);
    },
    build(cell) {
      const stateCell = new MemberStateCell(cell);
      return {
        update: (_, member, { statusAge }) => stateCell.update(member, statusAge),
        tick: (_, member, { statusAge }) => stateCell.tick(member, statusAge),
      };
    },
  },
  { key: "score", title: "Score", right: true, down: true, sort: m => m.score, build: textCell(m => formatNumber(m.score)) },
  {
    key: "parts", title: "Parts of the score", sort: null,
    scale: pool => (pool.topScore > 0 ? `0 to ${formatNumber(pool.topScore)}` : ""),
    build(cell) {
      const bar = makeScoreBar();
      cell.append(bar);
      return { update: (_, member, pool) => drawScoreBar(bar, member.parts, pool.topScore) };
    },
  },
  {
    key: "age", title: "Report", note: "age", right: true, down: true, sort: m => m.age_s,
    build() {
      const { update } = textCell((m, { statusAge }) => (m.age_s === null ? NO_VALUE : formatDuration(m.age_s + statusAge)))();
      return { update, tick: update };
    },
  },
  {
    key: "share", title: "Share, last minute", down: true, sort: m => m.minuteShare,
    scale: pool => `answers | capacity, 0 to ${formatPercent(pool.topShare, pool.topShare < 0.1 ? shareDigits(pool) : 0)}`,
    build(cell) {
      const bar = makeShareBar();
      const share = make("span", "number");
      const capacity = make("span", "number quiet");
      cell.append(make("div", "with-bar", share, capacity, bar));
      return {
        update(_, member, pool) {
          setText(share, formatPercent(member.minuteShare, shareDigits(pool)));
          setText(capacity, formatPercent(member.capacityShare, shareDigits(pool)));
          drawShareBar(bar, member.minuteShare, member.capacityShare, pool.topShare);
        },
      };
    },
  },
  {
    key: "rate", title: "Answers/s", down: true, sort: m => m.rate, scale: pool => (pool.topRate > 0 ? `0 to ${formatNumber(pool.topRate, 1)}` : ""),
    build(cell) {
      return sparklineCell(cell, make("span", "number"), {
        text: m => formatNumber(m.rate, 1, true), metric: "answers", valueOf: rate => rate, maximum: pool => pool.topRate,
      });
    },
  },
  {
    key: "requests", title: "Requests/s", right: true, down: true, sort: metricOf("requests_per_s"),
    build: textCell(m => formatNumber(m.metrics.requests_per_s, 1, true)),
  },
  {
    key: "busy", title: "Busy", note: "workers", right: true, down: true, sort: metricOf("busy_workers"),
    build: textCell(m => formatReading(m.metrics.busy_workers)),
  },
  {
    key: "cpu", title: "CPU", down: true, sort: cpuInUse, scale: () => "0 to 100 %",
    build(cell) {
      const number = make("span", "number");
      const bar = make("div", "bar cpu");
      bar.setAttribute("aria-hidden", "true");
      const found = sparklineCell(cell, number, {
        text: m => (cpuInUse(m) === null ? NO_VALUE : `${formatNumber(cpuInUse(m))} %`),
        metric: "cpu_idle", valueOf: idle => 100 - idle, maximum: () => 100,
      });
      number.after(bar);
      return {
        ...found,
        update(_, member, pool) {
          found.update(cell, member, pool);
          setStyle(bar, "--share", `${cpuInUse(member) ?? 0}%`);
        },
      };
    },
  },
];

const collator = new Intl.Collator("en", { numeric: true });

/** Return a function that compares two members by a column. Members without a value come last; ties are sorted by name. */
export function memberComparator(key, down) {
  const { sort } = [NAME_COLUMN, ...COLUMNS].find(column => column.key === key && column.sort) ?? NAME_COLUMN;
  const sign = down ? -1 : 1;
  return (a, b) => {
    const [x, y] = [sort(a), sort(b)];
    const missing = (x === null || x === undefined) - (y === null || y === undefined);
    const order = typeof x === "string" ? collator.compare(x, y) : x - y;
    return missing || sign * (order || 0) || collator.compare(a.name, b.name);
  };
}
