//! Address family affinity: a client's A, AAAA and HTTPS lookups for one connection get the same member.
//!
//! Decides exactly as the Python module `lbdns.answering.member_selection` does, which documents the reasons.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;

use crate::answer_table::Cursor;

const SLOTS: usize = 16_384;
const OPEN: usize = 8; // selections per slot that other types can still join
pub const TYPES: usize = 3; // A, AAAA and HTTPS, which browsers look up at once

/// The recent selections from one plan for one client. Their numbers keep rising when another client takes the slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    mark: u64,
    begin: u64,         // the first selection made for this client
    end: u64,           // one past the newest selection
    next: [u64; TYPES], // by type: the first selection that the type hasn't joined
    times: [f64; OPEN], // monotonic seconds
    members: [u32; OPEN],
}

impl Slot {
    /// Return the number of the oldest selection after `since` that this type can still join.
    fn number(&self, family: usize, since: f64) -> Option<u64> {
        let first = self.next[family].max(self.begin).max(self.end.saturating_sub(OPEN as u64));
        (first..self.end).find(|number| self.times[*number as usize % OPEN] > since)
    }
}

/// The newest selections, by a hash of the client's address and the plan cursor, and how many each type has joined.
pub struct FamilyAffinity {
    slots: Vec<Slot>,
    hasher: RandomState,
    pub coherent: u64,
}

impl FamilyAffinity {
    pub fn new() -> FamilyAffinity {
        FamilyAffinity { slots: vec![Slot::default(); SLOTS], hasher: RandomState::new(), coherent: 0 }
    }

    pub fn mark(&self, address: IpAddr, number: usize) -> u64 {
        self.hasher.hash_one((address, number))
    }

    /// Return the member that a lookup of this type would join if it was selected after `since`; changes nothing.
    pub fn member(&self, mark: u64, family: usize, since: f64) -> Option<u32> {
        let slot = &self.slots[mark as usize % SLOTS];
        let number = if slot.mark == mark { slot.number(family, since) } else { None };
        number.map(|number| slot.members[number as usize % OPEN])
    }

    /// Return the member for a lookup: that of the selection it joins, else the plan's next member.
    ///
    /// A member that has become unusable is replaced, also for the types that have yet to join.
    pub fn give(&mut self, address: IpAddr, number: usize, cursor: &mut Cursor, family: usize, now: f64) -> u32 {
        let mark = self.mark(address, number);
        let slot = &mut self.slots[mark as usize % SLOTS];
        if slot.mark != mark {
            slot.mark = mark;
            slot.begin = slot.end;
        } else if let Some(number) = slot.number(family, now - cursor.affinity_window) {
            slot.next[family] = number + 1;
            let member = &mut slot.members[number as usize % OPEN];
            if cursor.is_usable(*member) {
                self.coherent += 1;
            } else {
                *member = cursor.take_next();
            }
            return *member;
        }
        let member = cursor.take_next();
        let place = slot.end as usize % OPEN;
        (slot.members[place], slot.times[place]) = (member, now);
        slot.end += 1;
        slot.next[family] = slot.end;
        member
    }
}

impl Default for FamilyAffinity {
    fn default() -> FamilyAffinity {
        FamilyAffinity::new()
    }
}
