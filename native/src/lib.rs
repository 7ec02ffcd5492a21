//! The short way of a query, natively.
//!
//! ```text
//! binding   what Python sees; converts, decides nothing
//!   batch   recvmmsg, one Context::answer for each datagram, sendmmsg
//!     answer    entries[question] -> kinds[bytes around it] -> member -> parts joined; or left aside
//!       table   compiled answers and plans, filled by Python
//!       limit recent coherence cookies siphash
//!     sample  which of them are told of one by one, for the query log
//! ```
//!
//! Python has all of it too and is whole without this: what is left aside takes its long way, and the same tests hold
//! both to the same bytes.

pub mod answer;
pub mod batch;
mod binding;
pub mod coherence;
pub mod cookies;
pub mod limit;
pub mod recent;
pub mod sample;
pub mod siphash;
pub mod table;
