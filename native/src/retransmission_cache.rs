//! Retransmission cache: a retransmitted query is answered with the same member, and doesn't advance the plan.
//!
//! The decisions are the same as in `lbdns.answering.member_selection`.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;

const SLOTS: usize = 65_536;
const AGAIN: f64 = 6.0; // s: resolvers retransmit a query after 0.4 to 5 s

#[derive(Clone, Copy)]
struct Slot {
    mark: u64,
    when: f64, // monotonic seconds
    member: u32,
}

/// The member selected for each recent query, and the time of selection, by a hash of client and message.
pub struct RetransmissionCache {
    slots: Vec<Slot>,
    hasher: RandomState,
    pub repeated: u64,
}

impl RetransmissionCache {
    pub fn new() -> RetransmissionCache {
        let nothing = Slot { mark: 0, when: f64::NEG_INFINITY, member: 0 };
        RetransmissionCache { slots: vec![nothing; SLOTS], hasher: RandomState::new(), repeated: 0 }
    }

    /// Return the key of a query: a hash of the client's address and port and of the whole message.
    pub fn mark(&self, address: IpAddr, port: u16, query: &[u8]) -> u64 {
        self.hasher.hash_one((address, port, query))
    }

    /// Return the member that was selected earlier for this query, or None if the query is new.
    pub fn member(&self, mark: u64, now: f64) -> Option<u32> {
        let slot = self.slots[mark as usize % SLOTS];
        (slot.mark == mark && now - slot.when < AGAIN).then_some(slot.member)
    }

    /// Store the member selected for a query; `now` is in monotonic seconds.
    pub fn note(&mut self, mark: u64, member: u32, now: f64) {
        self.slots[mark as usize % SLOTS] = Slot { mark, when: now, member };
    }
}

impl Default for RetransmissionCache {
    fn default() -> RetransmissionCache {
        RetransmissionCache::new()
    }
}
