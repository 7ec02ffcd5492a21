// The live page: brings together what hears, what keeps and what shows.

import { Explain } from "./explain.js";
import { Feed } from "./feed.js";
import { Head } from "./head.js";
import { Log } from "./log.js";
import { Model } from "./model.js";
import { Picks } from "./picks.js";
import { Plots } from "./plots.js";
import { Pools } from "./pools.js";
import { Ring } from "./ring.js";

const SECOND = 1000;  // milliseconds
const at = id => document.getElementById(id);

const model = new Model();
const ring = new Ring();
const log = new Log(at("log"), at("announce"));
const head = new Head({ link: at("link"), old: at("old"), server: at("server") }, model);
const picks = new Picks(() => refresh());
const explain = new Explain(at("explain"));
const pools = new Pools(at("choice"), at("pools"), picks, name => explain.choose(name));
const plots = new Plots(at("plots"), { model, ring, picks, events: () => log.events });
let connected = false;

function refresh() {
  picks.update(model);
  pools.update(model);
  plots.draw();
}

const feed = new Feed({
  status(document, heard) {
    const first = model.at === 0;
    model.take(document, heard);
    picks.update(model);
    head.update();
    pools.update(model);
    log.watch(model);
    explain.update(model);
    if (!first) return;
    plots.draw();
    log.catchUp();
  },
  log: event => log.take(event),
  link(state) {
    connected = state !== "old";
    if (state !== "live") log.behind = true;  // what happens while there is no stream is asked for
    head.link(state);
  },
});

feed.start();
setInterval(() => {
  if (model.at === 0) return;
  head.tick();
  if (connected) {
    ring.take(model, Date.now() / SECOND);
    log.catchUp();
  }
  if (document.hidden) return;
  pools.tick(model);
  plots.tick();
}, SECOND);
