//! Everything that answers depend on. One lock per table: Python and the threads that answer queries share the tables.

use std::sync::{Arc, Mutex};

use crate::answer_table::AnswerTable;
use crate::cookies::ServerCookies;
use crate::family_affinity::FamilyAffinity;
use crate::fast_path::Context;
use crate::rate_limiter::RateLimiter;
use crate::retransmission_cache::RetransmissionCache;
use crate::sync::lock;

/// The tables of one configuration. Threads must lock them in the order of the fields.
pub struct Tables {
    pub table: Arc<Mutex<AnswerTable>>,
    pub limiter: Arc<Mutex<RateLimiter>>,
    pub retransmissions: Arc<Mutex<RetransmissionCache>>,
    pub affinity: Arc<Mutex<FamilyAffinity>>,
    pub cookies: Option<Arc<ServerCookies>>,
}

impl Tables {
    /// Lock all tables for the queries of one batch. `now` is in monotonic seconds, `wall` in Unix seconds.
    pub fn with_context<R>(&self, now: f64, wall: u64, work: impl FnOnce(&mut Context) -> R) -> R {
        let mut table = lock(&self.table);
        let mut limiter = lock(&self.limiter);
        let mut retransmissions = lock(&self.retransmissions);
        let mut affinity = lock(&self.affinity);
        work(&mut Context {
            table: &mut table,
            limiter: &mut limiter,
            retransmissions: &mut retransmissions,
            affinity: &mut affinity,
            cookies: self.cookies.as_deref(),
            now,
            wall,
        })
    }
}
