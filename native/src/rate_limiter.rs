//! Response rate limiting (RRL): at most a set number of similar responses per second to one client network.
//!
//! The decisions are the same as in `lbdns.answering.rate_limiter`.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;

const SLOTS: usize = 65_536;
const ALL: u32 = 5; // times the limit: the total for a network across all kinds of response

/// A network prefix that is exempt from the limit.
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

/// Return the first `prefix` bits of an address that is `bits` long.
fn cut(address: u128, bits: u8, prefix: u8) -> u128 {
    address.checked_shr(u32::from(bits - prefix)).unwrap_or(0)
}

/// The configured limits.
pub struct Rules {
    pub limit: u32, // similar responses per window; 0 means no limit
    pub slip: u32,  // every slip-th response over the limit is truncated, the others are dropped; 0 drops all
    pub ipv4_prefix: u8,
    pub ipv6_prefix: u8,
    pub exempt: Vec<Network>,
}

/// Counts similar responses per client network in windows of one second.
pub struct RateLimiter {
    rules: Rules,
    counts: Vec<u32>,
    end: f64, // monotonic seconds: the end of the current window
    hasher: RandomState,
    pub dropped: u64,
    pub cut: u64,
    pub last: Option<IpAddr>, // the client limited most recently
}

impl RateLimiter {
    pub fn new(rules: Rules) -> RateLimiter {
        RateLimiter {
            rules,
            counts: vec![0; SLOTS],
            end: 0.0,
            hasher: RandomState::new(),
            dropped: 0,
            cut: 0,
            last: None,
        }
    }

    /// Start a new window if the current window is over; `now` is in monotonic seconds.
    ///
    /// Call this method before each batch.
    pub fn tick(&mut self, now: f64) {
        if now >= self.end {
            self.end = now + 1.0;
            self.counts.fill(0);
        }
    }

    /// Count one response of `kind`, and return the number of responses by which the network exceeds its limit.
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
            return over; // not sent, so it doesn't count towards the total
        }
        let every_kind: &[u8] = &[];
        self.add((network, every_kind)).saturating_sub(limit.saturating_mul(ALL))
    }

    /// Count one more response in this window, and return the new count.
    fn add(&mut self, what: impl Hash) -> u32 {
        let count = &mut self.counts[self.hasher.hash_one(what) as usize % SLOTS];
        *count = count.saturating_add(1);
        *count
    }

    /// Return true to drop a response that exceeds the limit by `over`, false to truncate it.
    pub fn drops(&mut self, over: u32, address: IpAddr) -> bool {
        self.last = Some(address);
        let is_cut = self.rules.slip != 0 && over % self.rules.slip == 0;
        if is_cut {
            self.cut += 1;
        } else {
            self.dropped += 1;
        }
        !is_cut
    }
}
