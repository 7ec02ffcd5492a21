//! The queries that wait for the slow path, and the samples that wait for the query log. Both are bounded.

use std::collections::VecDeque;
use std::io;
use std::mem::take;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Mutex;

use crate::datagram_batch::{Room, Sample, UnansweredQuery, SPARED};
use crate::system::EventFd;
use crate::tables::lock;

/// Queries that may wait, about 10 MB: more than a full receive buffer.
const CAPACITY: usize = 32_768;
const MAX_SAMPLES: usize = 10_000;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram_batch::Peer;

    fn queries(count: usize) -> Vec<UnansweredQuery> {
        (0..count)
            .map(|n| UnansweredQuery { query: n.to_be_bytes().to_vec(), peer: Peer::nobody(), is_sampled: false })
            .collect()
    }

    #[test]
    fn queries_leave_in_order_and_make_room() {
        let queue = SlowQueue::new().unwrap();
        queue.add(queries(CAPACITY - 1));
        assert_eq!(queue.room(false).left, 1);
        assert_eq!(queue.room(true).left, 0);
        let first: Vec<_> = queue.take(3).into_iter().map(|left| left.query).collect();
        assert_eq!(first, (0..3).map(|n: usize| n.to_be_bytes().to_vec()).collect::<Vec<_>>());
        assert_eq!(queue.room(false).left, 4);
        assert_eq!(queue.take(CAPACITY).len(), CAPACITY - 4);
        assert_eq!(queue.room(true).left, SPARED);
    }

    #[test]
    fn samples_without_room_are_counted() {
        let samples = SampleQueue::default();
        let peer = Peer::nobody();
        for _ in 0..3 {
            let sample = || Sample { query: Vec::new(), peer: peer.clone(), response: None, took: Default::default() };
            samples.add(&mut (0..MAX_SAMPLES / 2).map(|_| sample()).collect(), 1.0);
        }
        let (taken, lost) = samples.take();
        assert_eq!((taken.len(), lost), (MAX_SAMPLES, MAX_SAMPLES as u64 / 2));
        assert_eq!(samples.take().1, 0);
    }
}
