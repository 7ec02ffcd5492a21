//! The fast paths for DNS queries and for reports in Rust.
//!
//! ```text
//! binding                    the Python classes: type conversions only
//! datagram_binding           the Python classes for batches of queries: type conversions only
//!   datagram_thread          the thread that owns a socket, and answers batches without the interpreter
//!     thread_orders          what Python orders it to do: pause, go on, use other tables, end
//!     slow_queue             the queries that it leaves to Python
//!   datagram_batch           recvmmsg, one Context::answer per datagram, sendmmsg
//!     fast_path              entries[question] -> kinds[shape of the query] -> member -> response
//!       answer_table         precompiled answers and plan cursors, filled by Python
//!       rate_limiter         response rate limiting
//!       retransmission_cache the member that each recent query got
//!       family_affinity      one member for the A, AAAA and HTTPS queries of a client
//!       cookies              DNS cookies, hashed with siphash
//!     tables                 all of these, with the locks that Python and the threads share
//!     query_sampler          chooses the queries for the query log
//! report_binding             the Python class of a report datagram: type conversions only
//!   report_envelope          splits, verifies and decodes a report datagram
//! report_acceptor_binding    the Python class that accepts the next report of a known host, and stores its reading
//! report_batch_binding       the Python class for batches of report datagrams: type conversions only
//!   report_batch             recvmmsg; the acceptor then takes each datagram
//! report_figures_binding     the Python classes for capacity, derived metrics and scores: type conversions only
//!   report_figures           computes them from a report's metrics
//! history_binding            the Python functions for the history: type conversions only
//!   history_columns          the columns that are stored exactly
//! reading_changes_binding    the Python functions for the changes that followers receive: type conversions only
//!   json_text                writes and reads JSON
//! planning_binding           the Python functions for planning: type conversions only
//!   level_filling            splits an amount so that all members reach the same level
//!   planning_arithmetic      the arithmetic that takes longest when a large pool is planned
//!     capacity_estimate      estimates the members' capacities from what they have served
//! observed_member_binding    the Python class of an observed member: type conversions only
//!   observed_member          what one member's reports show over time
//! ```
//!
//! This crate is optional, because lbdns has the same fast paths in Python. All other queries take the slow path,
//! which exists only in Python. The same tests run on both implementations and require the same bytes.

pub mod answer_table;
mod binding;
pub mod capacity_estimate;
pub mod cookies;
pub mod datagram_batch;
mod datagram_binding;
pub mod datagram_thread;
pub mod family_affinity;
pub mod fast_path;
mod history_binding;
pub mod history_columns;
pub mod json_text;
pub mod level_filling;
pub mod member_lists;
pub mod observed_member;
mod observed_member_binding;
pub mod planning_arithmetic;
mod planning_binding;
pub mod query_sampler;
pub mod rate_limiter;
mod reading_changes_binding;
mod report_acceptor_binding;
pub mod report_batch;
mod report_batch_binding;
mod report_binding;
pub mod report_envelope;
pub mod report_figures;
mod report_figures_binding;
pub mod retransmission_cache;
pub mod siphash;
pub mod slow_queue;
pub mod sync;
pub mod system;
pub mod tables;
pub mod thread_orders;
