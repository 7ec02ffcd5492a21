// Finds how long members have had no spare capacity. A busy member may be full for a moment every few seconds, so that the
// page mentions it only if it stays full.

import { displayState } from "./status-model.js";

const LEAST_TIME = 10;  // seconds

export class FullMembers {
  constructor() {
    this.starts = null;  // pool, or pool and member -> Unix seconds, or null if it was full when the page was opened
  }

  /** Set ``full`` in each pool and in each of its members: ``{since}`` (Unix seconds, or null if unknown) if it has been
   * full for long enough, otherwise null. A pool is full if every member that answers can name is. */
  record(model, now) {
    const starts = new Map();
    const note = (key, isFull) => {
      if (!isFull) return null;
      const since = this.starts === null ? null : this.starts.has(key) ? this.starts.get(key) : now;
      starts.set(key, since);
      return since === null || now - since >= LEAST_TIME ? { since } : null;
    };
    for (const pool of model.pools) {
      for (const member of pool.members) member.full = note(`${pool.name}\n${member.name}`, displayState(member) === "full");
      const inUse = pool.members.filter(({ isInUse }) => isInUse);
      pool.full = note(pool.name, inUse.length > 0 && inUse.every(member => displayState(member) === "full"));
    }
    this.starts = starts;
  }
}
