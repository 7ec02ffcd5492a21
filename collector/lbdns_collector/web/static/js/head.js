// The head of the page: is what is seen live, and how is the server.

import { className, figures, hide, text } from "./dom.js";
import { bytes, moment, number, plural, span } from "./format.js";
import { label } from "./metrics.js";

const LATE = 10;  // seconds after which figures are old, whatever the connection says

const LINKS = {
  connecting: "connecting",
  live: "live",
  polling: "asking every 2 s",
  old: "no connection",
};

export class Head {
  constructor({ link, old, server }, model) {
    Object.assign(this, { element: link, old, server, model });
    this.state = "connecting";
  }

  link(state) {
    this.state = state;
    this.tick();
  }

  /** Once a second, and when the link changes. */
  tick() {
    const { waited, at } = this.model;
    const state = this.state === "live" && waited > LATE ? "old" : this.state;
    className(this.element, `link ${state}`);
    text(this.element, LINKS[state]);
    hide(this.old, state !== "old");
    document.documentElement.classList.toggle("is-old", state === "old");
    // Said once: a reader of the screen must not hear the seconds counted
    const words = at ? `No connection to the server. What you see is from ${moment(this.taken)}.` : "No connection to the server.";
    text(this.old, state === "old" ? words : "");
  }

  update() {
    this.taken = Date.now() / 1000;
    const { server, rates, waited, adaptive } = this.model;
    const told = [
      ["queries/s", number(rates.queries, 1, true)],
      ["queries", number(server.queries)],
      ["up", span((server.uptime_s ?? NaN) + waited)],
    ];
    if (server.workers > 1) told.push(["processes", number(server.workers)]);
    if (server.history) told.push(history(server.history));
    if (adaptive) told.push(adapted(adaptive));
    told.push(["version", server.version ?? ""]);
    figures(this.server, told);
  }
}

function history({ on, ok, error, dropped, bytes: size }) {
  if (!on) return ["history", "off"];
  if (ok !== false) return ["history", bytes(size)];
  return ["history", "not recording", "warn", `${error || "it can't be written"}; ${plural(dropped ?? 0, "value")} dropped`];
}

function adapted({ score, trials, accepted, gain, weights }) {
  const words = Object.entries(weights ?? {}).map(([metric, weight]) => `${label(metric)} ${number(weight, 2)}`);
  return ["adaptive score", `${score}: ${number(100 * gain, 1)} % shorter`, "",
    `${accepted} of ${plural(trials, "trial")} accepted; weights: ${words.join(", ")}`];
}
