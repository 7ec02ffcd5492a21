// Finds members that answers name although they report no requests. The server quarantines such a member only if errors or
// waiting connections confirm the failure, because clients cache answers. The page therefore waits for more evidence: so
// many answers that the other members' requests leave no doubt.

const LEAST_TIME = 60;  // seconds without a request
const LEAST_EXPECTED = 300;  // requests that would have followed at the rate of the other members ...
const LEAST_RATIO = 0.5;  // ... which must get at least this many requests per answer: then few answers come from caches
const LEAST_OTHERS = 2;  // members
const OWN_REQUESTS = 1.1;  // per report interval: the agent reads the status page once
const MAX_GAP = 10;  // seconds between two statuses; in a longer gap, requests may have gone unseen

export class UnservedMembers {
  constructor() {
    this.pools = new Map();  // name -> Map(member -> {time, answers} when its requests ended)
    this.time = -Infinity;  // of the newest status, in seconds since the server started
  }

  /** Set ``unservedAnswers`` in each member of ``model``: the answers that named it since its requests ended, or 0 if the
   * evidence does not suffice. */
  record(model) {
    const { uptime_s: time = 0 } = model.server;
    if (time < this.time || time - this.time > MAX_GAP) this.pools.clear();
    this.time = time;
    for (const pool of model.pools) {
      const known = this.pools.get(pool.name) ?? new Map();
      const starts = new Map(pool.members.filter(isIdle).map(({ name, answers = 0 }) => [name, known.get(name) ?? { time, answers }]));
      this.pools.set(pool.name, starts);
      for (const member of pool.members) member.unservedAnswers = unservedAnswers(member, starts.get(member.name), pool, time);
    }
  }
}

/** Report whether a usable member serves no other requests than its agent's. */
function isIdle({ state, guard, interval_s: interval, metrics }) {
  const requests = metrics.requests_per_s;
  return state === "usable" && !guard && typeof requests === "number" && requests <= OWN_REQUESTS / Math.max(1, interval || 1);
}

function unservedAnswers(member, start, pool, time) {
  if (!start || time - start.time < LEAST_TIME) return 0;
  const answers = member.answers - start.answers;
  return answers * requestsPerAnswer(pool, member) >= LEAST_EXPECTED ? answers : 0;
}

/** Return the number of requests that follow an answer at the other members, or 0 if they are too few to tell. */
function requestsPerAnswer({ members }, { name }) {
  const others = members.filter(other => other.name !== name && other.state === "usable" && other.rate > 0 && !isIdle(other)
    && typeof other.metrics.requests_per_s === "number");
  if (others.length < LEAST_OTHERS) return 0;
  const sum = valueOf => others.reduce((total, other) => total + valueOf(other), 0);
  const ratio = sum(({ metrics }) => metrics.requests_per_s) / sum(({ rate }) => rate);
  return ratio >= LEAST_RATIO ? Math.min(1, ratio) : 0;
}
