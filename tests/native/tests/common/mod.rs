//! A pool of members in answer tables, and clients that query it.
#![cfg(not(feature = "loom"))]
#![allow(dead_code)]

use std::collections::HashMap;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lbdns_native_tests::answer_table::{AnswerTable, Cursor, CursorPlan, Fragment, Variant};
use lbdns_native_tests::datagram_batch::{DatagramBatch, Peer, Room};
use lbdns_native_tests::rate_limiter::{RateLimiter, Rules};
use lbdns_native_tests::tables::Tables;

pub const MEMBERS: usize = 3;
const FLAGS: [u8; 10] = [1, 0, 0, 1, 0, 0, 0, 0, 0, 0]; // of a query with RD and one question
const RESPONSE: [u8; 10] = [0x81, 0, 0, 1, 0, 1, 0, 0, 0, 0];
pub const POOL: &[u8] = b"\x04best\x06hobbit\0\0\x01\0\x01"; // a name, type A, class IN
pub const UNKNOWN: &[u8] = b"\x07unknown\x06hobbit\0\0\x01\0\x01";

/// Return a table that answers `POOL` with the members in turn. Each answer ends with `mark` and the member's number.
pub fn table(mark: u8) -> AnswerTable {
    let variant = |tail: Vec<u8>| Variant { head: RESPONSE, tail: tail.into(), fragment: Fragment::default() };
    let shapes = HashMap::from([(FLAGS.to_vec().into_boxed_slice(), 0)]);
    let mut table = AnswerTable::new(shapes, HashMap::new(), vec![variant(Vec::new())]);
    table.cursors.push(Cursor::new(0.0, 1));
    table.cursors[0].set_plan(&mut plan());
    let variants = (0..MEMBERS).map(|member| variant(vec![mark, member as u8])).collect();
    table.keep(POOL, Some(0), None, 0, variants);
    table
}

pub fn plan() -> CursorPlan {
    CursorPlan::new((0..MEMBERS as u32).collect(), 0, &[0, 1, 2])
}

pub fn tables(mark: u8) -> Tables {
    let rules = Rules { limit: 0, slip: 0, ipv4_prefix: 24, ipv6_prefix: 56, exempt: Vec::new() };
    Tables {
        table: Arc::new(Mutex::new(table(mark))),
        limiter: Arc::new(Mutex::new(RateLimiter::new(rules))),
        retransmissions: Arc::default(),
        affinity: Arc::default(),
        cookies: None,
    }
}

pub fn query(id: u16, question: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes(), &FLAGS[..], question].concat()
}

/// Return a socket on a free port of the loopback address `host` that learns to which address each datagram was sent.
pub fn server(host: &str) -> UdpSocket {
    let socket = UdpSocket::bind((host, 0)).unwrap();
    let (level, option) = match socket.local_addr().unwrap().is_ipv4() {
        true => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        false => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    let on: libc::c_int = 1;
    // SAFETY: the option's value outlives the call
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(&on).cast(), 4) };
    assert_eq!(done, 0);
    socket
}

/// Return a socket that is connected to `server`.
pub fn client(server: &UdpSocket) -> UdpSocket {
    let address = server.local_addr().unwrap();
    let socket = UdpSocket::bind((address.ip(), 0)).unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

/// Send a query, and return the response.
pub fn ask(client: &UdpSocket, id: u16, question: &[u8]) -> Vec<u8> {
    client.send(&query(id, question)).unwrap();
    let mut response = [0; 512];
    let length = client.recv(&mut response).unwrap();
    response[..length].to_vec()
}

/// Return the peer of a datagram that a batch has received.
pub fn peer() -> Peer {
    let server = server("127.0.0.1");
    client(&server).send(&query(1, UNKNOWN)).unwrap();
    let mut batch = DatagramBatch::new();
    while batch.receive(server.as_raw_fd()).unwrap() == 0 {}
    let mut done = tables(0).with_context(0.0, 0, |context| batch.answer(context, Room::new(false)));
    done.unanswered.remove(0).peer
}
