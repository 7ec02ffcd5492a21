//! Tests of `slow_queue.rs`.
#![cfg(not(feature = "loom"))]

mod common;

use lbdns_native_tests::datagram_batch::{Peer, Sample, UnansweredQuery, SPARED};
use lbdns_native_tests::slow_queue::{SampleQueue, SlowQueue, CAPACITY, MAX_SAMPLES};

fn queries(count: usize, peer: &Peer) -> Vec<UnansweredQuery> {
    (0..count)
        .map(|n| UnansweredQuery { query: n.to_be_bytes().to_vec(), peer: peer.clone(), is_sampled: false })
        .collect()
}

#[test]
fn queries_leave_in_order_and_make_room() {
    let queue = SlowQueue::new().unwrap();
    queue.add(queries(CAPACITY - 1, &common::peer()));
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
    let peer = common::peer();
    for _ in 0..3 {
        let sample = || Sample { query: Vec::new(), peer: peer.clone(), response: None, took: Default::default() };
        samples.add(&mut (0..MAX_SAMPLES / 2).map(|_| sample()).collect(), 1.0);
    }
    let (taken, lost) = samples.take();
    assert_eq!((taken.len(), lost), (MAX_SAMPLES, MAX_SAMPLES as u64 / 2));
    assert_eq!(samples.take().1, 0);
}
