// The row that opens below a member: addresses, capacity, overrides, parts of the score and all reported metrics.

import { fillList, make, makeButton, setText } from "./dom-elements.js";
import { metricLabel, metricUnit, sortMetrics } from "./metric-labels.js";
import { overrideDescription } from "./override-text.js";
import { displayState, isOld, stateReason, stateText, whyFull } from "./status-model.js";
import { NO_VALUE, formatNumber, formatPercent, formatReading } from "./value-format.js";

export class MemberDetails {
  constructor(columnCount) {
    this.state = make("p", "why-state");
    this.summary = make("p", "about");
    this.overrides = make("ul", "overrides");
    this.parts = make("dl", "figures small");
    this.metrics = make("dl", "figures small");
    const steer = makeButton("Steer …", () => this.element.dispatchEvent(this.#steerEvent()), "steer-button");
    const box = make("div", "details-box", steer, this.state, this.summary, this.overrides, make("h3", "part", "Parts of the score"), this.parts);
    this.metricsTitle = make("h3", "part");
    box.append(this.metricsTitle, this.metrics);
    const cell = make("td", "", box);
    cell.colSpan = columnCount;
    this.element = make("tr", "details", cell);
  }

  #steerEvent() {
    return new CustomEvent("steer", { bubbles: true, detail: { member: this.member, pool: this.pool } });
  }

  update(member, pool) {
    [this.member, this.pool] = [member.name, pool.name];
    this.element.querySelector(".steer-button").setAttribute("aria-label", `Steer ${member.name}`);
    const reason = [stateReason(member), displayState(member) === "full" && whyFull(member)].filter(Boolean).join("; ");
    setText(this.state, `${stateText(member)}${reason ? `: ${reason}` : ""}`);
    setText(this.summary, summaryOf(member, pool, reason));
    const overrides = member.overrides.map(overrideDescription);
    while (this.overrides.childElementCount > overrides.length) this.overrides.lastElementChild.remove();
    while (this.overrides.childElementCount < overrides.length) this.overrides.append(make("li"));
    overrides.forEach((description, i) => setText(this.overrides.children[i], description));
    const parts = sortMetrics(Object.keys(member.parts));
    const partEntries = parts.map(metric => [metricLabel(metric), formatNumber(member.parts[metric], 1, true)]);
    fillList(this.parts, parts.length ? partEntries : [["unknown", NO_VALUE]]);
    setText(this.metricsTitle, isOld(member) ? "Metrics of the last report, which are old" : "Reported metrics");
    const metrics = sortMetrics(Object.keys(member.lastMetrics));
    fillList(this.metrics, metrics.map(metric => [metricLabel(metric), `${formatReading(member.lastMetrics[metric])} ${unitOf(metric)}`]));
  }
}

function summaryOf(member, pool, reason) {
  const { addresses, guard, alarm, gone } = member;
  const facts = [
    addresses.join(", "), !(reason && guard.includes(reason)) && guard, alarm && !reason.includes(alarm) && `alarm: ${alarm}`,
    gone && "agent stopped",
  ];
  if (typeof member.capacity === "number") {
    facts.push(`capacity ${formatNumber(member.capacity, 1)}${pool.measured === false ? " (by processor count, not yet measured)" : " requests/s"}`);
  }
  if (typeof member.shadow_score === "number") facts.push(`shadow score ${formatNumber(member.shadow_score)}`);
  for (const { policy, shadow, share } of pool.shadow) {
    facts.push(`would receive ${formatPercent(share?.[member.name] ?? null, 1)} of the answers if ${shadow} replaced ${policy}`);
  }
  facts.push(`${formatNumber(member.answers)} answers since the server started`);
  return facts.filter(Boolean).join(" · ");
}

/** Return the unit of a metric, or "" if its label already contains it. */
function unitOf(metric) {
  const unit = metricUnit(metric);
  return metricLabel(metric).endsWith(unit) ? "" : unit;
}
