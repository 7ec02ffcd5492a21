//! Tests of `report_batch.rs` with real sockets.
#![cfg(not(feature = "loom"))]

mod common;

use std::os::fd::AsRawFd;

use lbdns_native_tests::report_batch::ReportBatch;
use lbdns_native_tests::report_envelope::{Envelope, MAX_DATAGRAM};

#[test]
fn datagrams_and_their_sources_are_those_of_the_last_batch() {
    for host in ["127.0.0.1", "::1"] {
        let (server, mut batch) = (common::server(host), ReportBatch::new());
        let client = common::client(&server);
        let lengths = [0, 1, 9, 25, MAX_DATAGRAM, MAX_DATAGRAM + 1, MAX_DATAGRAM + 2, 9000];
        for length in lengths {
            client.send(&vec![b'L'; length]).unwrap();
        }
        let mut read = Vec::new();
        while read.len() < lengths.len() {
            let count = batch.receive(server.as_raw_fd()).unwrap();
            for at in 0..count {
                assert_eq!(batch.source(at), Some(client.local_addr().unwrap().ip()));
                assert!(Envelope::open(batch.datagram(at).unwrap()).is_none());
                read.push(batch.datagram(at).unwrap().len());
            }
            assert!(batch.datagram(count).is_none() && batch.source(count).is_none());
        }
        assert_eq!(read, lengths.map(|length| length.min(MAX_DATAGRAM + 1)));
    }
}
