// Selects the members that have a line in the plots, and the colour of each line: all members of a small pool; in a
// larger pool, the members with the most answers and the members that the viewer chose.

const MAX_AUTOMATIC = 10;  // lines; more can't be told apart
const MAX_LINES = 20;  // including those the viewer chose
export const COLOURS = 10;  // --series-0 to --series-9; further lines are dashed
const UPDATE_INTERVAL = 15_000;  // milliseconds between two selections of the members with the most answers

export class PlottedMembers {
  constructor(onChange) {
    this.onChange = onChange;
    this.pools = new Map();  // name -> {choices: Map(member -> bool), slots: Map(member -> number), updatedAt}
  }

  poolState(name) {
    let state = this.pools.get(name);
    if (!state) {
      state = { choices: new Map(), slots: new Map(), updatedAt: -Infinity };
      this.pools.set(name, state);
    }
    return state;
  }

  /** Add or remove a member's line at the viewer's request. */
  toggle(pool, member) {
    const state = this.poolState(pool);
    state.choices.set(member, !state.slots.has(member));
    state.updatedAt = -Infinity;
    this.onChange();
  }

  update(model) {
    for (const pool of model.pools) {
      const state = this.poolState(pool.name);
      if (performance.now() - state.updatedAt < UPDATE_INTERVAL) continue;
      // Until rates are known, members are compared by their total answers; then select again without delay
      if (pool.rate !== null || pool.members.length <= MAX_AUTOMATIC) state.updatedAt = performance.now();
      this.selectMembers(pool, state);
    }
  }

  selectMembers(pool, { choices, slots }) {
    const rate = member => member.rate ?? 0;
    const others = pool.members.filter(({ name }) => !choices.has(name));
    if (pool.members.length > MAX_AUTOMATIC) {
      others.sort((a, b) => rate(b) - rate(a) || (b.answers ?? 0) - (a.answers ?? 0) || (b.score ?? 0) - (a.score ?? 0));
    }
    const selected = pool.members.filter(({ name }) => choices.get(name)).slice(0, MAX_LINES);
    selected.push(...others.slice(0, Math.max(0, MAX_AUTOMATIC - selected.length)));
    const names = new Set(selected.map(({ name }) => name));
    for (const name of slots.keys()) if (!names.has(name)) slots.delete(name);
    const usedSlots = new Set(slots.values());
    let slot = 0;
    for (const { name } of pool.members) {
      if (!names.has(name) || slots.has(name)) continue;
      while (usedSlots.has(slot)) slot += 1;
      usedSlots.add(slot);
      slots.set(name, slot);
    }
  }

  /** Return the CSS colour of a member's line, or null if the member has none. */
  colour(pool, member) {
    const slot = this.poolState(pool).slots.get(member);
    return slot === undefined ? null : `var(--series-${slot % COLOURS})`;
  }

  /** Return [{name, slot}] for the members that have a line, in the pool's order. */
  lines(pool) {
    const { slots } = this.poolState(pool.name);
    return pool.members.filter(({ name }) => slots.has(name)).map(({ name }) => ({ name, slot: slots.get(name) }));
  }
}
