//! Queries that arrive again get the member they got before, as in `lbdns.answering.recent`.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;

const SLOTS: usize = 65_536;
const AGAIN: f64 = 6.0; // s: resolvers repeat a query after 0.4 to 5 s

#[derive(Clone, Copy)]
struct Slot {
    mark: u64,
    when: f64, // monotonic seconds
    member: u32,
}

/// By the hash of client and message: the member handed out, and when.
pub struct Recent {
    slots: Vec<Slot>,
    hasher: RandomState,
    pub repeated: u64,
}

impl Recent {
    pub fn new() -> Recent {
        let nothing = Slot { mark: 0, when: f64::NEG_INFINITY, member: 0 };
        Recent { slots: vec![nothing; SLOTS], hasher: RandomState::new(), repeated: 0 }
    }

    pub fn mark(&self, address: IpAddr, port: u16, query: &[u8]) -> u64 {
        self.hasher.hash_one((address, port, query))
    }

    /// The member that the query with this mark was given, None if it is not a repeated one.
    pub fn member(&self, mark: u64, now: f64) -> Option<u32> {
        let slot = self.slots[mark as usize % SLOTS];
        (slot.mark == mark && now - slot.when < AGAIN).then_some(slot.member)
    }

    pub fn note(&mut self, mark: u64, member: u32, now: f64) {
        self.slots[mark as usize % SLOTS] = Slot { mark, when: now, member };
    }
}

impl Default for Recent {
    fn default() -> Recent {
        Recent::new()
    }
}
