//! The queries that wait for the slow path, and the samples that wait for the query log. Both are bounded.

use std::collections::VecDeque;
use std::io;
use std::mem::take;
use std::os::fd::{AsRawFd, RawFd};

use crate::datagram_batch::{Room, Sample, UnansweredQuery, SPARED};
use crate::sync::{lock, Mutex};
use crate::system::EventFd;

/// Queries that may wait, about 10 MB: more than a full receive buffer.
pub const CAPACITY: usize = 32_768;
pub const MAX_SAMPLES: usize = 10_000;

/// The queries that a thread leaves to Python, oldest first.
pub struct SlowQueue {
    queries: Mutex<VecDeque<UnansweredQuery>>,
    ready: EventFd, // readable while queries wait
}

impl SlowQueue {
    pub fn new() -> io::Result<SlowQueue> {
        Ok(SlowQueue { queries: Mutex::default(), ready: EventFd::new()? })
    }

    /// Return how many queries may be added. During overload, only a few may wait at a time.
    pub fn room(&self, is_overloaded: bool) -> Room {
        let most = if is_overloaded { SPARED } else { CAPACITY };
        Room { left: most.saturating_sub(lock(&self.queries).len()), only_sound: is_overloaded }
    }

    /// Add queries at the end, and wake Python if none waited before.
    pub fn add(&self, queries: Vec<UnansweredQuery>) {
        if queries.is_empty() {
            return;
        }
        let mut waiting = lock(&self.queries);
        if waiting.is_empty() {
            self.ready.signal();
        }
        waiting.extend(queries);
    }

    /// Remove and return up to `most` queries.
    pub fn take(&self, most: usize) -> Vec<UnansweredQuery> {
        let mut waiting = lock(&self.queries);
        let most = most.min(waiting.len());
        let taken = waiting.drain(..most).collect();
        if waiting.is_empty() {
            self.ready.clear();
        }
        taken
    }
}

impl AsRawFd for SlowQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.ready.as_raw_fd()
    }
}

/// The samples that wait for the query log, each with the time of its answer in Unix seconds.
#[derive(Default)]
pub struct SampleQueue(Mutex<(Vec<(f64, Sample)>, u64)>);

impl SampleQueue {
    /// Add samples; those that find no room are counted as lost.
    pub fn add(&self, samples: &mut Vec<Sample>, wall: f64) {
        if samples.is_empty() {
            return;
        }
        let mut waiting = lock(&self.0);
        let room = MAX_SAMPLES.saturating_sub(waiting.0.len()).min(samples.len());
        waiting.1 += (samples.len() - room) as u64;
        waiting.0.extend(samples.drain(..).take(room).map(|sample| (wall, sample)));
    }

    /// Remove and return all samples, and the number of those lost since the last call.
    pub fn take(&self) -> (Vec<(f64, Sample)>, u64) {
        let mut waiting = lock(&self.0);
        (take(&mut waiting.0), take(&mut waiting.1))
    }
}
