// The plots: answers and scores by member, queries by type and by rcode, and two metrics of your choice.

import { fill, hide, labelled, make, select, text } from "./dom.js";
import { plural } from "./format.js";
import { inOrder, label, unit } from "./metrics.js";
import { keep, setting } from "./settings.js";
import { Chart } from "./chart.js";
import { Past, missing } from "./past.js";

const SPANS = [[300, "5 min"], [3600, "1 h"], [86_400, "1 day"], [2_592_000, "30 days"]];
const ALWAYS = ["answers", "score", "usable", "age_s"];
const SLOW = 5;  // seconds between two drawings of a span in which a second is less than a pixel

export class Plots {
  constructor(element, { model, ring, picks, events }) {
    Object.assign(this, { element, model, ring, picks, events });
    this.span = Number(setting("span", 300));
    this.pool = setting("plots", "");
    this.ticks = 0;
    const title = make("h2", "", "Plots");
    title.id = "plots-title";
    this.chooser = select([], "");
    this.chooser.addEventListener("change", () => {
      this.pool = this.chooser.value;
      keep("plots", this.pool);
      this.draw();
    });
    this.choice = labelled("Pool", this.chooser);
    this.note = make("p", "note quiet");
    const head = make("div", "panel-head", title, this.choice, this.spans(), this.note);
    const grid = make("div", "charts");
    this.charts = [
      this.ofMembers("Answers/s", () => "answers"),
      this.ofMembers("Score", () => "score"),
      this.chosen("first", "requests_per_s"),
      this.chosen("second", "busy_workers"),
      this.ofServer("Queries/s by type", "types"),
      this.ofServer("Responses/s by rcode", "rcodes"),
    ];
    grid.append(...this.charts.map(({ chart }) => chart.element));
    element.append(head, grid);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.charts.forEach(({ chart }) => chart.build()));
  }

  spans() {
    const set = make("fieldset", "segments", make("legend", "unseen", "Span of time"));
    for (const [seconds, words] of SPANS) {
      const radio = make("input");
      Object.assign(radio, { type: "radio", name: "span", value: seconds, checked: seconds === this.span });
      radio.addEventListener("change", () => {
        this.span = seconds;
        keep("span", seconds === 300 ? "" : seconds);
        this.draw();
      });
      set.append(make("label", "", radio, make("span", "", words)));
    }
    return set;
  }

  ofMembers(title, metric) {
    return { chart: new Chart(title), past: new Past(this.ring, this.model), metric, server: false };
  }

  ofServer(title, metric) {
    return { ...this.ofMembers(title, () => metric), server: true };
  }

  /** A plot whose metric is chosen from a list in its heading. */
  chosen(key, otherwise) {
    const control = select([[otherwise, label(otherwise)]], otherwise);
    let metric = setting(key, otherwise);
    const made = { ...this.ofMembers("", () => metric), control };
    control.setAttribute("aria-label", "Metric of this plot");
    control.addEventListener("change", () => {
      metric = control.value;
      keep(key, metric === otherwise ? "" : metric);
      this.draw();
    });
    made.chart.title.append(control);
    return made;
  }

  /** Once a second. */
  tick() {
    this.ticks += 1;
    if (this.span <= SPANS[0][0] || this.ticks % SLOW === 0) this.draw();
  }

  draw() {
    const { pools } = this.model;
    fill(this.chooser, pools.map(({ name }) => [name, name]));
    hide(this.choice, pools.length < 2);
    const pool = this.model.pool(this.pool) ?? pools[0];
    if (!pool) return;
    this.chooser.value = pool.name;
    const lines = this.picks.lines(pool);
    const some = lines.length < pool.members.length;
    text(this.note, [
      some ? `${lines.length} of ${plural(pool.members.length, "member")}: those with most answers, and those you mark in the table` : "",
      missing(this.model.server) ? "The server keeps no history: this is what came since the page was opened" : "",
    ].filter(Boolean).join(". "));
    const now = Date.now() / 1000;
    const events = this.events().filter(event => event.time > now - this.span && (!event.pool || event.pool === pool.name));
    for (const each of this.charts) if (each.chart.visible) this.drawOne(each, pool, lines, events, now);
  }

  drawOne({ chart, past, metric, server, control }, pool, lines, events, now) {
    const name = metric();
    if (control) fill(control, inOrder(new Set([...ALWAYS, ...pool.metrics, name])).map(key => [key, label(key)]), name);
    const again = () => this.drawOne({ chart, past, metric, server, control }, pool, lines, events, now);
    const known = server ? Boolean(this.model.server.types) : ALWAYS.includes(name) || pool.metrics.has(name);
    const data = past.get(server ? "" : pool.name, name, server ? null : lines.map(line => line.name), this.span, now, known, again);
    const shown = server ? Object.keys(data.series).sort().map((key, slot) => ({ name: key, slot })) : lines;
    const { length } = data.times;
    const lacking = server ? "not told by this server" : "reported by no member";
    chart.say(past.error || (!known ? lacking : control ? unit(name) : ""));
    const what = server ? chart.title.textContent : `${label(name)} by member of pool ${pool.name}`;
    chart.draw(length ? data : { times: [now], series: {} }, shown, events, [now - this.span, now], what);
  }
}
