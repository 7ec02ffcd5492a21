// Which members have a line in the plots, and in which colour: all of a small pool, else those with most answers and
// those that were picked.

const AUTOMATIC = 10;  // lines that can still be told apart
const MOST = 20;  // with those that were picked
export const COLOURS = 10;  // --series-0 to --series-9; beyond, lines are dashed
const SETTLE = 15_000;  // milliseconds between two looks at who has most answers

export class Picks {
  constructor(changed) {
    this.changed = changed;
    this.pools = new Map();  // name -> {picked: Map(member -> bool), slots: Map(member -> number), looked}
  }

  of(pool) {
    let found = this.pools.get(pool);
    if (!found) {
      found = { picked: new Map(), slots: new Map(), looked: -Infinity };
      this.pools.set(pool, found);
    }
    return found;
  }

  toggle(pool, member) {
    const found = this.of(pool);
    found.picked.set(member, !found.slots.has(member));
    found.looked = -Infinity;
    this.changed();
  }

  /** Choose for every pool of the model. */
  update(model) {
    for (const pool of model.pools) {
      const found = this.of(pool.name);
      if (performance.now() - found.looked < SETTLE) continue;
      // Before there are rates, what was answered since the start has to do
      if (pool.rate !== null || pool.members.length <= AUTOMATIC) found.looked = performance.now();
      this.choose(pool, found);
    }
  }

  choose(pool, { picked, slots }) {
    const by = member => member.rate ?? 0;
    const rest = pool.members.filter(({ name }) => !picked.has(name));
    if (pool.members.length > AUTOMATIC) {
      rest.sort((a, b) => by(b) - by(a) || (b.answers ?? 0) - (a.answers ?? 0) || (b.score ?? 0) - (a.score ?? 0));
    }
    const wanted = pool.members.filter(({ name }) => picked.get(name)).slice(0, MOST);
    wanted.push(...rest.slice(0, Math.max(0, AUTOMATIC - wanted.length)));
    const names = new Set(wanted.map(({ name }) => name));
    for (const name of slots.keys()) if (!names.has(name)) slots.delete(name);
    const taken = new Set(slots.values());
    let free = 0;
    for (const { name } of pool.members) {
      if (!names.has(name) || slots.has(name)) continue;
      while (taken.has(free)) free += 1;
      taken.add(free);
      slots.set(name, free);
    }
  }

  colour(pool, member) {
    const slot = this.of(pool).slots.get(member);
    return slot === undefined ? null : `var(--series-${slot % COLOURS})`;
  }

  /** [{name, slot}] of the members with a line, in the pool's order. */
  lines(pool) {
    if (!pool) return [];
    const { slots } = this.of(pool.name);
    return pool.members.filter(({ name }) => slots.has(name)).map(({ name }) => ({ name, slot: slots.get(name) }));
  }
}
