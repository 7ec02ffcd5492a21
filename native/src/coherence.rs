//! Look-ups that belong together get one member, as in `lbdns.answering.coherence`.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;

use crate::table::Cursor;

const SLOTS: usize = 16_384;
const OPEN: usize = 8; // hand-outs of a slot that can still be joined
pub const TYPES: usize = 3; // that belong together

/// A client at a hand-out. Its hand-outs are numbered on without end, also from owner to owner.
#[derive(Clone, Copy, Default)]
struct Slot {
    mark: u64,
    begin: u64, // the first that its owner can join
    end: u64,
    next: [u64; TYPES], // by type: the first that it hasn't joined
    times: [f64; OPEN], // monotonic seconds
    members: [u32; OPEN],
}

impl Slot {
    /// The oldest hand-out that this type can join.
    fn number(&self, which: usize, since: f64) -> Option<u64> {
        let first = self.next[which].max(self.begin).max(self.end.saturating_sub(OPEN as u64));
        (first..self.end).find(|number| self.times[*number as usize % OPEN] > since)
    }
}

/// By the hash of a client's address and a hand-out: the newest members handed out, when, and how far each type has come.
pub struct Coherence {
    slots: Vec<Slot>,
    hasher: RandomState,
    pub coherent: u64,
}

impl Coherence {
    pub fn new() -> Coherence {
        Coherence { slots: vec![Slot::default(); SLOTS], hasher: RandomState::new(), coherent: 0 }
    }

    pub fn mark(&self, address: IpAddr, handout: usize) -> u64 {
        self.hasher.hash_one((address, handout))
    }

    /// The member that a look-up of this type belongs to, if it was handed out after `since`. Nothing moves.
    pub fn member(&self, mark: u64, which: usize, since: f64) -> Option<u32> {
        let slot = &self.slots[mark as usize % SLOTS];
        let number = if slot.mark == mark { slot.number(which, since) } else { None };
        number.map(|number| slot.members[number as usize % OPEN])
    }

    /// The member for a look-up: the one that it belongs to, or the next. One that can't be handed out any more is
    /// replaced for the types that are still to come, too.
    pub fn give(&mut self, address: IpAddr, handout: usize, cursor: &mut Cursor, which: usize, now: f64) -> u32 {
        let mark = self.mark(address, handout);
        let slot = &mut self.slots[mark as usize % SLOTS];
        if slot.mark != mark {
            slot.mark = mark;
            slot.begin = slot.end;
        } else if let Some(number) = slot.number(which, now - cursor.coherence) {
            slot.next[which] = number + 1;
            let member = &mut slot.members[number as usize % OPEN];
            if cursor.is_usable(*member) {
                self.coherent += 1;
            } else {
                *member = cursor.hand_out();
            }
            return *member;
        }
        let member = cursor.hand_out();
        let place = slot.end as usize % OPEN;
        (slot.members[place], slot.times[place]) = (member, now);
        slot.end += 1;
        slot.next[which] = slot.end;
        member
    }
}

impl Default for Coherence {
    fn default() -> Coherence {
        Coherence::new()
    }
}
