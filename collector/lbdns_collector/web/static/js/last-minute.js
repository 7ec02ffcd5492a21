// The answers of the last minute: how many named each member. They are the differences of the counters in the status. For
// the part of the minute before the page was opened, they come from the server's history.

import { fetchJsonIfPresent } from "./fetch-api.js";

const MINUTE = 60;  // seconds

export class LastMinute {
  constructor() {
    this.pools = new Map();  // name -> {members, samples: [{time, answers}], past: [{start, end, answers}]}
  }

  /** Record the counters in ``model``, and set ``lastMinute`` (answers) in each of its pools and members,
   * and the members' shares. */
  record(model) {
    const { started, uptime_s: uptime } = model.server;
    const time = (started ?? 0) + (uptime ?? 0);  // by the server's clock, like its history
    for (const pool of model.pools) {
      const minute = this.poolMinute(pool, time, model.server);
      const answers = pool.members.map(member => member.answers ?? 0);
      const newest = minute.samples.at(-1);
      if (newest && answers.some((count, i) => count < newest.answers[i])) {  // the server was restarted
        minute.samples = [];
        minute.past = [];
      }
      minute.samples.push({ time, answers });
      while (minute.samples.length > 1 && minute.samples[1].time <= time - MINUTE) minute.samples.shift();
      setTotals(pool, minute, time);
    }
  }

  poolMinute(pool, time, server) {
    const names = pool.members.map(({ name }) => name);
    let minute = this.pools.get(pool.name);
    if (!minute || names.length !== minute.names.length || names.some((name, i) => name !== minute.names[i])) {
      minute = { names, samples: [], past: [] };
      this.pools.set(pool.name, minute);
      if (server.started && server.history?.on) fetchPast(pool.name, minute, time);
    }
    return minute;
  }
}

function setTotals(pool, { samples, past }, time) {
  const [oldest, newest] = [samples[0], samples.at(-1)];
  pool.lastMinute = 0;
  pool.members.forEach((member, i) => {
    member.lastMinute = newest.answers[i] - oldest.answers[i];
    for (const { start, end, answers } of past) {
      const seconds = Math.min(end, oldest.time) - Math.max(start, time - MINUTE);
      if (seconds > 0) member.lastMinute += answers[i] * seconds;
    }
    pool.lastMinute += member.lastMinute;
  });
  pool.topShare = 0;
  for (const member of pool.members) {
    member.minuteShare = pool.lastMinute > 0 ? member.lastMinute / pool.lastMinute : null;
    pool.topShare = Math.max(pool.topShare, member.minuteShare ?? 0, member.capacityShare ?? 0);
  }
}

async function fetchPast(pool, minute, time) {
  const parameters = new URLSearchParams({ pool, metric: "answers", from: (time - MINUTE).toFixed(0), to: time.toFixed(0), points: MINUTE });
  const history = await fetchJsonIfPresent(`/api/v1/history?${parameters}`).catch(() => null);  // then the minute fills slowly
  const { times = [], step_s: step, series = {} } = history ?? {};
  minute.past = times.map((start, k) => ({
    start, end: start + step, answers: minute.names.map(name => series[name]?.[k] ?? 0),
  }));
}
