//! Response rate limiting, as `lbdns.answering.limit` does it: so many alike responses a second to one network.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;

const SLOTS: usize = 65_536;
const ALL: u32 = 5; // times the limit: of all kinds together

/// A network that is not limited: its first bits, and how many they are.
pub struct Network {
    pub address: IpAddr,
    pub prefix: u8,
}

impl Network {
    fn has(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                cut(u128::from(u32::from(own)), 32, self.prefix) == cut(u128::from(u32::from(other)), 32, self.prefix)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                cut(u128::from(own), 128, self.prefix) == cut(u128::from(other), 128, self.prefix)
            }
            _ => false,
        }
    }
}

/// The first `prefix` bits of an address of `bits`.
fn cut(address: u128, bits: u8, prefix: u8) -> u128 {
    address.checked_shr(u32::from(bits - prefix)).unwrap_or(0)
}

pub struct Rules {
    pub limit: u32, // alike responses in a window; 0: no limit
    pub slip: u32,  // of those over the limit every so manieth is cut, the others are dropped; 0: all are
    pub ipv4_prefix: u8,
    pub ipv6_prefix: u8,
    pub exempt: Vec<Network>,
}

/// Counts alike responses by network in windows of a second.
pub struct Limiter {
    rules: Rules,
    counts: Vec<u32>,
    end: f64, // of the window, monotonic seconds
    hasher: RandomState,
    pub dropped: u64,
    pub cut: u64,
    pub last: Option<IpAddr>, // limited last
}

impl Limiter {
    pub fn new(rules: Rules) -> Limiter {
        Limiter { rules, counts: vec![0; SLOTS], end: 0.0, hasher: RandomState::new(), dropped: 0, cut: 0, last: None }
    }

    pub fn tick(&mut self, now: f64) {
        if now >= self.end {
            self.end = now + 1.0;
            self.counts.fill(0);
        }
    }

    /// Count one response of `kind`: by how much that is over the limit, 0 if it isn't.
    pub fn count(&mut self, address: IpAddr, kind: &[u8]) -> u32 {
        if self.rules.limit == 0 || self.rules.exempt.iter().any(|network| network.has(address)) {
            return 0;
        }
        let network = match address {
            IpAddr::V4(four) => (4, cut(u128::from(u32::from(four)), 32, self.rules.ipv4_prefix)),
            IpAddr::V6(six) => (6, cut(u128::from(six), 128, self.rules.ipv6_prefix)),
        };
        let limit = self.rules.limit;
        let over = self.add((network, kind)).saturating_sub(limit);
        if over > 0 {
            return over; // and no part of all that are given
        }
        let every_kind: &[u8] = &[];
        self.add((network, every_kind)).saturating_sub(limit.saturating_mul(ALL))
    }

    /// One more of these in this window: how many they are.
    fn add(&mut self, what: impl Hash) -> u32 {
        let count = &mut self.counts[self.hasher.hash_one(what) as usize % SLOTS];
        *count = count.saturating_add(1);
        *count
    }

    /// What becomes of a response that is `over` the limit: dropped, or else cut.
    pub fn drops(&mut self, over: u32, address: IpAddr) -> bool {
        self.last = Some(address);
        let is_cut = self.rules.slip != 0 && over.is_multiple_of(self.rules.slip);
        if is_cut {
            self.cut += 1;
        } else {
            self.dropped += 1;
        }
        !is_cut
    }
}
