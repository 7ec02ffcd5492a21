//! Tests of `datagram_batch.rs` with real sockets: answers leave from the queried address, and nothing is read beyond a
//! datagram.
#![cfg(not(feature = "loom"))]

mod common;

use std::os::fd::AsRawFd;

use common::{client, query, server, tables, POOL, UNKNOWN};
use lbdns_native_tests::datagram_batch::{reply, DatagramBatch, Done, Room, BATCH};

/// Read and answer until `count` datagrams are read.
fn drain(batch: &mut DatagramBatch, fd: i32, count: usize, room: Room) -> Vec<Done> {
    let tables = tables(7);
    let mut read = 0;
    let mut found = Vec::new();
    while read < count {
        let some = batch.receive(fd).unwrap();
        if some > 0 {
            found.push(tables.with_context(1.0, 1, |context| batch.answer(context, room)));
            assert_eq!(batch.send(fd), 0);
            read += some;
        }
    }
    found
}

#[test]
fn more_queries_than_one_batch_are_answered() {
    for host in ["127.0.0.1", "::1"] {
        let (server, mut batch) = (server(host), DatagramBatch::new());
        let client = client(&server);
        let count = BATCH + 10;
        for id in 0..count {
            client.send(&query(id as u16, POOL)).unwrap();
        }
        drain(&mut batch, server.as_raw_fd(), count, Room::new(false));
        let mut response = [0; 512];
        for id in 0..count {
            let length = client.recv(&mut response).unwrap();
            assert_eq!(response[..2], (id as u16).to_be_bytes());
            assert_eq!(response[length - 2..length], [7, (id % common::MEMBERS) as u8]);
        }
    }
}

#[test]
fn queries_for_the_slow_path_get_their_reply() {
    for host in ["127.0.0.1", "::1"] {
        let (server, mut batch) = (server(host), DatagramBatch::new());
        let client = client(&server);
        client.send(&query(9, UNKNOWN)).unwrap();
        let found = drain(&mut batch, server.as_raw_fd(), 1, Room::new(false));
        let left = &found[0].unanswered[0];
        assert_eq!(left.query, query(9, UNKNOWN));
        let port = client.local_addr().unwrap().port();
        assert_eq!(left.peer.address().map(|(_, port, _, _)| port), Some(port));
        assert!(reply(server.as_raw_fd(), &left.peer, b"a reply"));
        let mut response = [0; 512];
        assert_eq!(client.recv(&mut response).unwrap(), 7);
    }
}

#[test]
fn datagrams_of_every_length_are_read_whole() {
    let (server, mut batch) = (server("127.0.0.1"), DatagramBatch::new());
    let client = client(&server);
    let lengths: Vec<usize> = (0..40).chain([4095, 4096, 4097, 60_000]).collect();
    for length in &lengths {
        client.send(&vec![0; *length]).unwrap();
    }
    let found = drain(&mut batch, server.as_raw_fd(), lengths.len(), Room::new(false));
    let read: Vec<usize> = found.iter().flat_map(|done| &done.unanswered).map(|left| left.query.len()).collect();
    let expected: Vec<usize> =
        lengths.iter().filter(|length| **length >= 12).map(|length| *length.min(&4096)).collect();
    assert_eq!(read, expected);
}

#[test]
fn sound_queries_are_shed_last() {
    let (server, mut batch) = (server("127.0.0.1"), DatagramBatch::new());
    let client = client(&server);
    client.send(&[0; 12]).unwrap(); // no question
    for id in 0..10 {
        client.send(&query(id, UNKNOWN)).unwrap();
    }
    let found = drain(&mut batch, server.as_raw_fd(), 11, Room { left: 4, only_sound: true });
    let first = &found[0];
    assert!(first.unanswered.len() <= 4 && first.unanswered.iter().all(|left| left.query.len() > 12));
    assert_eq!(found.iter().map(|done| done.shed + done.unanswered.len()).sum::<usize>(), 11);
}
