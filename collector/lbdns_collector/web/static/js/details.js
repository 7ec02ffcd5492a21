// What a row tells when it is opened: addresses, overrides with who and why, parts of the score, every metric.

import { figures, make, text } from "./dom.js";
import { NOTHING, figure, number, percent } from "./format.js";
import { inOrder, label, unit } from "./metrics.js";
import { overrideStory } from "./state.js";

export class Details {
  constructor(columns) {
    this.about = make("p", "about");
    this.overrides = make("ul", "overrides");
    this.parts = make("dl", "figures small");
    this.metrics = make("dl", "figures small");
    const box = make("div", "details-box", this.about, this.overrides, make("h4", "", "Parts of the score"), this.parts);
    box.append(make("h4", "", "Metrics as reported"), this.metrics);
    const cell = make("td", "", box);
    cell.colSpan = columns;
    this.row = make("tr", "details", cell);
  }

  update(member, pool) {
    const about = [member.addresses.join(", "), member.guard, member.alarm && `alarm: ${member.alarm}`, member.gone && "it said goodbye"];
    if (typeof member.capacity === "number") {
      about.push(`capacity ${number(member.capacity, 1)}${pool.measured === false ? " (by processors, not yet measured)" : " requests/s"}`);
    }
    if (typeof member.shadow_score === "number") about.push(`score in the shadow ${number(member.shadow_score)}`);
    for (const tried of pool.shadow) {
      about.push(`${percent(tried.share?.[member.name] ?? null, 1)} of the answers if ${tried.shadow} were ${tried.policy}`);
    }
    about.push(`${number(member.answers)} answers since the start`);
    text(this.about, about.filter(Boolean).join(" · "));
    const stories = member.overrides.map(overrideStory);
    while (this.overrides.childElementCount > stories.length) this.overrides.lastElementChild.remove();
    while (this.overrides.childElementCount < stories.length) this.overrides.append(make("li"));
    stories.forEach((story, i) => text(this.overrides.children[i], story));
    const parts = inOrder(Object.keys(member.parts));
    figures(this.parts, parts.length ? parts.map(metric => [label(metric), number(member.parts[metric], 1, true)]) : [["none known", NOTHING]]);
    const metrics = inOrder(Object.keys(member.metrics));
    figures(this.metrics, metrics.map(metric => [label(metric), `${figure(member.metrics[metric])} ${short(metric)}`]));
  }
}

function short(metric) {
  const words = unit(metric);
  return words === label(metric) || metric === "requests_total" ? "" : words;
}
