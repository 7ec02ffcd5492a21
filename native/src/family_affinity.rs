//! Address family affinity: a client's A, AAAA and HTTPS lookups for one connection get the same member.
//!
//! Decides exactly as the Python module `lbdns.answering.member_selection` does, which documents the rules.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;

use crate::answer_table::Cursor;

const SLOTS: usize = 16_384;
const OPEN: usize = 4; // lookups per slot that queries can still join
pub const TYPES: usize = 3; // A, AAAA and HTTPS, which browsers look up at once
const SOON: f64 = 2.0; // factors by which a gap between queries must be shorter than another gap
const CLEARLY: f64 = 4.0;
const VERY_SOON: f64 = 16.0;
const LONG: f64 = 0.05; // s: longer than a busy machine usually delays a query
const GROWTH: f64 = 1.25;
const UNTESTED: u8 = 6; // votes for the type with which a client's lookups usually begin: at first, ...
const CONTRARY: u8 = 4; // ... lost by a contrary vote, ...
const CERTAIN: u8 = 8; // ... enough, ...
const MOST: u8 = 32; // ... and at most
const DOUBTS: u32 = 3; // consecutive lookups after which the next one is decisive

/// Queries of one client for different types, whose answers name the same member.
#[derive(Clone, Copy)]
struct Lookup {
    began: f64, // monotonic seconds
    member: u32,
    ports: [Option<u16>; TYPES], // by type: the source port of the query
}

/// The recent lookups of one client that used one plan.
#[derive(Clone, Copy)]
struct Slot {
    mark: u64,
    newest: f64,          // the time of the client's newest query
    current: usize,       // the lookup that it belongs to
    first: Option<usize>, // the first type of the current lookup, or None if a query has joined it
    waited: f64,          // the pause before the current lookup
    last: usize,          // the lookup that began last
    pause: f64,           // the client's usual pause before a lookup, or 0 if unknown
    usual: usize,         // the type with which the client's lookups usually begin
    votes: u8,            // the votes for it
    doubts: u32,          // consecutive lookups that began although rule 5 nearly applied
    times: [f64; TYPES],  // by type: the time of the newest query
    lookups: [Lookup; OPEN],
}

const NO_LOOKUP: Lookup = Lookup { began: f64::NEG_INFINITY, member: 0, ports: [None; TYPES] };
const EMPTY: Slot = Slot {
    mark: 0,
    newest: 0.0,
    current: 0,
    first: None,
    waited: 0.0,
    last: 0,
    pause: 0.0,
    usual: 0,
    votes: UNTESTED,
    doubts: 0,
    times: [0.0; TYPES],
    lookups: [NO_LOOKUP; OPEN],
};

/// What a query does.
enum Place {
    Joins(usize),
    Begins,
    Doubtful, // begins a new lookup, but the query may belong to the current one
}

impl Slot {
    /// Return the lookups that are open, newest first.
    fn open(&self, now: f64, window: f64) -> impl Iterator<Item = (usize, &Lookup)> {
        let numbers = (1..=OPEN).rev().map(|ahead| (self.last + ahead) % OPEN);
        numbers.map(|number| (number, &self.lookups[number])).filter(move |(_, lookup)| now - lookup.began < window)
    }

    /// Return whether a lookup that has begun lacks this type.
    fn is_lacking(&self, number: usize, family: usize) -> bool {
        let lookup = &self.lookups[number];
        lookup.ports[family].is_none() && lookup.began != f64::NEG_INFINITY
    }

    fn find(&self, port: u16, family: usize, now: f64, window: f64) -> Place {
        let lacking = || self.open(now, window).filter(|(number, _)| self.is_lacking(*number, family));
        if let Some((number, _)) = lacking().find(|(_, lookup)| lookup.ports.contains(&Some(port))) {
            return Place::Joins(number);
        }
        let begins = self.usual == family && self.votes >= CERTAIN;
        let mut found = Place::Begins;
        if now - self.lookups[self.current].began < window {
            if self.is_lacking(self.current, family) {
                if begins && SOON * (now - self.newest) >= self.waited {
                    return Place::Begins;
                }
                return Place::Joins(self.current);
            }
            found = self.compare_gaps(port, family, now);
        }
        match (found, lacking().next()) {
            (Place::Begins, Some((number, _))) if !begins => Place::Joins(number),
            (found, _) => found,
        }
    }

    /// Return what `find` returns if the current lookup does not lack the type.
    fn compare_gaps(&self, port: u16, family: usize, now: f64) -> Place {
        let ports = &self.lookups[self.current].ports;
        if ports.contains(&Some(port)) && ports[family] != Some(port) {
            return Place::Joins(self.current);
        }
        let (gap, before) = (now - self.newest, self.newest - self.times[family]);
        let may_begin = self.usual == family;
        if (if may_begin { CLEARLY } else { SOON }) * gap >= before {
            return Place::Begins;
        }
        let sure = self.doubts >= DOUBTS
            || (self.votes >= CERTAIN && !may_begin)
            || (VERY_SOON * gap < before && (CLEARLY * gap < self.pause || (before > LONG && !may_begin)));
        if sure {
            Place::Joins(self.current)
        } else {
            Place::Doubtful
        }
    }

    fn join(&mut self, number: usize, port: u16, family: usize, now: f64) {
        let first = self.first.take();
        if number != self.current {
            self.current = number;
            self.waited = 0.0;
            self.times = [self.lookups[number].began; TYPES];
        } else if !self.is_lacking(number, family) {
            if self.doubts >= DOUBTS {
                self.pause = self.newest - self.times[family]; // the earlier value was wrong
            }
            self.doubts = 0;
        } else if let Some(first) = first {
            if CLEARLY * (now - self.newest) < self.waited {
                self.vote(first);
            }
        }
        (self.newest, self.times[family]) = (now, now);
        self.lookups[number].ports[family] = Some(port);
    }

    /// Count a lookup that clearly began with this type.
    fn vote(&mut self, first: usize) {
        if first == self.usual {
            self.votes = MOST.min(self.votes + 1);
        } else if self.votes >= CONTRARY {
            self.votes -= CONTRARY;
        } else {
            (self.usual, self.votes) = (first, 1);
        }
    }

    fn begin(&mut self, member: u32, port: u16, family: usize, now: f64) {
        let (gap, pause) = (now - self.newest, GROWTH * self.pause);
        self.waited = gap;
        self.pause = if 0.0 < pause && pause < gap { pause } else { gap };
        self.last = (self.last + 1) % OPEN;
        (self.current, self.first) = (self.last, Some(family));
        (self.newest, self.times[family]) = (now, now);
        let mut ports = [None; TYPES];
        ports[family] = Some(port);
        self.lookups[self.last] = Lookup { began: now, member, ports };
    }
}

/// The clients' recent lookups, by a hash of the client's address and the plan cursor.
pub struct FamilyAffinity {
    slots: Vec<Slot>,
    hasher: RandomState,
    pub coherent: u64,
}

impl FamilyAffinity {
    pub fn new() -> FamilyAffinity {
        FamilyAffinity { slots: vec![EMPTY; SLOTS], hasher: RandomState::new(), coherent: 0 }
    }

    pub fn mark(&self, address: IpAddr, number: usize) -> u64 {
        self.hasher.hash_one((address, number))
    }

    /// Return the member that a query of this type would get by joining a lookup; changes nothing.
    pub fn member(&self, mark: u64, port: u16, family: usize, now: f64, window: f64) -> Option<u32> {
        let slot = &self.slots[mark as usize % SLOTS];
        match slot.find(port, family, now.max(slot.newest), window) {
            Place::Joins(number) if slot.mark == mark => Some(slot.lookups[number].member),
            _ => None,
        }
    }

    /// Return the member for a query: that of the lookup it joins, else the plan's next member.
    ///
    /// `client` is the client's address and port, `number` the number of `cursor`. A member that has become unusable is
    /// replaced, also for the queries that have yet to join. `now` may be older than that of another thread's query.
    pub fn give(&mut self, client: (IpAddr, u16), number: usize, cursor: &mut Cursor, family: usize, now: f64) -> u32 {
        let (address, port) = client;
        let mark = self.mark(address, number);
        let slot = &mut self.slots[mark as usize % SLOTS];
        let now = if slot.mark == mark { now.max(slot.newest) } else { now };
        if slot.mark != mark {
            *slot = Slot { mark, newest: now, ..EMPTY };
        } else {
            match slot.find(port, family, now, cursor.affinity_window) {
                Place::Joins(number) => {
                    slot.join(number, port, family, now);
                    let member = &mut slot.lookups[number].member;
                    if cursor.is_usable(*member) {
                        self.coherent += 1;
                    } else {
                        *member = cursor.take_next();
                    }
                    return *member;
                }
                Place::Doubtful => slot.doubts += 1,
                Place::Begins => slot.doubts = 0,
            }
        }
        let member = cursor.take_next();
        slot.begin(member, port, family, now);
        member
    }
}

impl Default for FamilyAffinity {
    fn default() -> FamilyAffinity {
        FamilyAffinity::new()
    }
}
