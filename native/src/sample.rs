//! Which queries are told of one by one, picked as `lbdns.server.net.query_watch.Sampler` does it.

/// Takes queries by chance, each with the same probability: the gaps between them are geometric, so that no period in
/// the queries matters.
pub struct Sampler {
    scale: f64, // ln(1 - part)
    state: u64,
    pause: u64, // queries until one is taken
}

impl Sampler {
    /// `part` of all queries is taken, above 0 and at most 1; `seed` comes from chance.
    pub fn new(part: f64, seed: u64) -> Sampler {
        let mut sampler = Sampler { scale: (-part).ln_1p(), state: seed, pause: 0 };
        sampler.pause = sampler.gap();
        sampler
    }

    /// The place of the first of the next `count` queries that is taken, `count` or more if none is.
    pub fn first(&self) -> u64 {
        self.pause
    }

    /// The query at `place` is taken: the place of the next one.
    pub fn after(&mut self, place: u64) -> u64 {
        self.pause = place.saturating_add(1).saturating_add(self.gap());
        self.pause
    }

    /// So many queries are over: places count from behind them.
    pub fn pass(&mut self, count: u64) {
        self.pause = self.pause.saturating_sub(count);
    }

    /// How many queries are not taken before one is.
    fn gap(&mut self) -> u64 {
        (self.chance().ln() / self.scale) as u64 // by the inverse of the distribution; all are taken: 0 / -inf
    }

    /// Above 0, at most 1 (SplitMix64: Steele, Lea and Flood, 2014).
    fn chance(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((mixed >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}
