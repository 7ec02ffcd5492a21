//! Random sampling: chooses the queries that the query log records, exactly as the Python sampler does.

/// Selects each query with the same probability. The gaps between samples follow a geometric distribution, so a pattern
/// in the queries can't bias the sample.
pub struct QuerySampler {
    scale: f64, // ln(1 - part)
    state: u64,
    pause: u64, // queries to skip before the next sample
}

impl QuerySampler {
    /// `part` is the fraction of queries to sample, above 0 and at most 1; `seed` must be random.
    pub fn new(part: f64, seed: u64) -> QuerySampler {
        let mut sampler = QuerySampler { scale: (-part).ln_1p(), state: seed, pause: 0 };
        sampler.pause = sampler.gap();
        sampler
    }

    /// Return the index of the next query to sample, which may lie beyond the current batch.
    pub fn first(&self) -> u64 {
        self.pause
    }

    /// Return the index of the sample after the query at `place`, which the caller has just sampled.
    pub fn after(&mut self, place: u64) -> u64 {
        self.pause = place.saturating_add(1).saturating_add(self.gap());
        self.pause
    }

    /// Advance by `count` queries: later indices count from the end of this batch.
    pub fn pass(&mut self, count: u64) {
        self.pause = self.pause.saturating_sub(count);
    }

    /// Return a random number of queries to skip before the next sample.
    fn gap(&mut self) -> u64 {
        (self.chance().ln() / self.scale) as u64 // inverse transform sampling; a part of 1 gives 0 / -inf
    }

    /// Return a random number above 0 and at most 1 (SplitMix64: Steele, Lea and Flood, 2014).
    fn chance(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((mixed >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}
