//! The modules of `native/src` that do not use Python, compiled for tests, sanitizers and model checks.
//!
//! With the feature `loom`, the locks are those of loom, which tries every order in which threads can run.

#[cfg(not(feature = "loom"))]
mod modules {
    #[path = "../../../../native/src/answer_table.rs"]
    pub mod answer_table;
    #[path = "../../../../native/src/cookies.rs"]
    pub mod cookies;
    #[path = "../../../../native/src/datagram_batch.rs"]
    pub mod datagram_batch;
    #[path = "../../../../native/src/datagram_thread.rs"]
    pub mod datagram_thread;
    #[path = "../../../../native/src/family_affinity.rs"]
    pub mod family_affinity;
    #[path = "../../../../native/src/fast_path.rs"]
    pub mod fast_path;
    #[path = "../../../../native/src/member_lists.rs"]
    pub mod member_lists;
    #[path = "../../../../native/src/query_sampler.rs"]
    pub mod query_sampler;
    #[path = "../../../../native/src/rate_limiter.rs"]
    pub mod rate_limiter;
    #[path = "../../../../native/src/report_batch.rs"]
    pub mod report_batch;
    #[path = "../../../../native/src/report_envelope.rs"]
    pub mod report_envelope;
    #[path = "../../../../native/src/retransmission_cache.rs"]
    pub mod retransmission_cache;
    #[path = "../../../../native/src/siphash.rs"]
    pub mod siphash;
    #[path = "../../../../native/src/slow_queue.rs"]
    pub mod slow_queue;
    #[path = "../../../../native/src/sync.rs"]
    pub mod sync;
    #[path = "../../../../native/src/system.rs"]
    pub mod system;
    #[path = "../../../../native/src/tables.rs"]
    pub mod tables;
    #[path = "../../../../native/src/thread_orders.rs"]
    pub mod thread_orders;
}

#[cfg(feature = "loom")]
mod modules {
    pub mod datagram_batch;
    #[path = "../../../../native/src/slow_queue.rs"]
    pub mod slow_queue;
    pub mod sync;
    pub mod system;
    #[path = "../../../../native/src/thread_orders.rs"]
    pub mod thread_orders;
}

pub use modules::*;
