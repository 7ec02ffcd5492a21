// The live page: shows /api/v1/status and keeps it fresh by /api/v1/events, else by asking again.
// Everything a server said is set as textContent: a host that was broken into must not write script here.
"use strict";

const POLL = 2000;  // milliseconds between questions while there is no event stream
const METRICS = [  // the metrics that get a column, with their unit
  ["run_queue", "tasks"], ["cpu_idle", "%"], ["gateway_ping", "ms"], ["requests_per_s", ""],
  ["busy_workers", ""], ["idle_workers", ""], ["scan_rate", "pages/s"], ["cpu_count", "cores"],
];

let latest = null;  // the newest status, and when it came
let polling = null;

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function number(value, digits) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString(undefined, { maximumFractionDigits: digits });
}

function duration(seconds) {
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  return seconds < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function heading() {
  const row = element("tr");
  for (const name of ["member", "state", "score", "age", "answers", "share"]) row.append(element("th", name));
  for (const [name, unit] of METRICS) {
    const cell = element("th", name.replaceAll("_", " "));
    cell.append(element("small", unit));
    row.append(cell);
  }
  for (const cell of row.children) cell.scope = "col";
  const head = element("thead");
  head.append(row);
  return head;
}

function share(value) {
  const cell = element("td");
  const bar = element("progress");
  bar.max = 1;
  bar.value = value;
  bar.setAttribute("aria-hidden", "true");
  cell.append(bar, `${(100 * value).toFixed(1)} %`);
  return cell;
}

function line(member, waited) {
  const row = element("tr");
  const name = element("td", member.name);
  name.title = member.addresses.join(", ");
  const state = element("td", member.state, member.state);
  if (member.alarm) state.textContent = `${member.state}: ${member.alarm}`;
  if (member.guard) {
    state.textContent += ` (${member.guard.split(/[:, ]/)[0]})`;
    state.title = member.guard;
    state.className = "guarded";
  }
  const age = member.age_s === null ? null : member.age_s + waited;
  row.append(name, state, element("td", number(member.score, 0)));
  row.append(element("td", age === null ? "–" : `${number(age, 1)} s`));
  row.append(element("td", number(member.answers, 0)), share(member.share));
  for (const [metric] of METRICS) row.append(element("td", number(member.metrics[metric], 1)));
  return row;
}

function section(pool, waited) {
  const made = element("section");
  made.append(element("h2", `${pool.name} in ${pool.zone || "."}`));
  const names = Object.entries(pool.policies).map(([name, policy]) => name === policy ? name : `${name} (${policy})`);
  made.append(element("p", `names: ${names.join(", ")}`, "about"));
  if (pool.fail_open) {
    made.append(element("p", `Fail open: ${pool.fail_open_reason}; everybody who is not drained gets answers`, "failopen"));
  }
  const table = element("table");
  const body = element("tbody");
  for (const member of pool.members) body.append(line(member, waited));
  table.append(heading(), body);
  const scroll = element("div", undefined, "scroll");
  scroll.append(table);
  made.append(scroll);
  return made;
}

function draw() {
  if (!latest) return;
  const waited = (performance.now() - latest.at) / 1000;
  const { pools, server } = latest.status;
  document.getElementById("server").textContent =
    `version ${server.version}, up ${duration(server.uptime_s + waited)}, ${number(server.queries, 0)} queries`;
  const shown = document.getElementById("pools");
  const scrolled = [...shown.querySelectorAll(".scroll")].map(box => box.scrollLeft);
  shown.replaceChildren(...pools.map(pool => section(pool, waited)));
  shown.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = scrolled[i] ?? 0; });
}

function take(text) {
  latest = { status: JSON.parse(text), at: performance.now() };
  draw();
}

function link(text, cut) {
  const shown = document.getElementById("link");
  if (shown.textContent !== text) shown.textContent = text;
  shown.className = cut ? "cut" : "";
}

async function poll() {
  try {
    const response = await fetch("/api/v1/status", { cache: "no-store" });
    if (!response.ok) throw new Error(response.statusText);
    take(await response.text());
    link("asking every 2 s", false);
  } catch {
    link("no connection: what you see is old", true);
  }
}

function listen() {
  const events = new EventSource("/api/v1/events");
  events.addEventListener("status", event => {
    clearInterval(polling);
    polling = null;
    take(event.data);
    link("live", false);
  });
  events.onerror = () => {
    if (polling === null) {
      polling = setInterval(poll, POLL);
      poll();
    }
    // After a refusal the browser gives up; after a cut it comes back by itself
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 10 * POLL);
  };
}

listen();
setInterval(draw, 1000);  // ages grow while nothing comes
