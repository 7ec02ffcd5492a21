//! Tests of `datagram_thread.rs`: clients, and a program that pauses the thread, changes its tables and reads its
//! counters, run at the same time.
#![cfg(not(feature = "loom"))]

mod common;

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use common::{ask, client, plan, server, tables, MEMBERS, POOL, UNKNOWN};
use lbdns_native_tests::datagram_batch::reply;
use lbdns_native_tests::datagram_thread::{DatagramThread, Figures};
use lbdns_native_tests::query_sampler::QuerySampler;
use lbdns_native_tests::sync::lock;
use lbdns_native_tests::system::monotonic;

const BOUNDS: [f64; 2] = [0.0001, 1.0]; // s

fn counted(figures: &Figures) -> u64 {
    figures.counts.iter().sum()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        thread::yield_now();
    }
}

#[test]
fn every_query_is_answered_and_counted_while_everything_changes() {
    const CLIENTS: u16 = 4;
    const QUERIES: u16 = 2000;
    let server = server("127.0.0.1");
    let shared = tables(0);
    let table = shared.table.clone();
    let running =
        DatagramThread::start("test", server.as_raw_fd(), shared, BOUNDS.to_vec(), monotonic() + 60.0).unwrap();
    let (is_over, mut marks, mut samples) = (AtomicBool::new(false), 0u8, 0);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let client = client(&server);
                    for id in 0..QUERIES {
                        let question = if id % 10 == 9 { UNKNOWN } else { POOL };
                        let response = ask(&client, id, question);
                        assert_eq!(response[..2], id.to_be_bytes());
                        if question == POOL {
                            assert!(usize::from(response[response.len() - 1]) < MEMBERS);
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                for left in running.slow().take(3) {
                    assert!(reply(server.as_raw_fd(), &left.peer, &left.query));
                }
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                lock(&table).cursors[0].set_plan(&mut plan());
                running.renew(monotonic() + 60.0);
                running.shed_until(0.0);
                running.sample(Some(QuerySampler::new(0.5, 1)));
                samples += running.samples().take().0.len();
                marks = marks.wrapping_add(1);
                running.pause();
                running.pause();
                running.use_tables(tables(marks));
                running.resume();
                running.resume();
                thread::yield_now();
            }
        });
        let results: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_over.store(true, Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
    let figures = running.figures();
    assert_eq!(counted(&figures), u64::from(CLIENTS * QUERIES) * 9 / 10);
    assert_eq!((figures.unsent, figures.shed, figures.failed), (0, 0, 0));
    assert!(samples > 0 && marks > 0 && running.batches() > 0);
    assert!(figures.seconds > 0.0);
}

#[test]
fn a_paused_thread_answers_after_it_goes_on() {
    let server = server("127.0.0.1");
    let running =
        DatagramThread::start("test", server.as_raw_fd(), tables(1), BOUNDS.to_vec(), monotonic() + 60.0).unwrap();
    let client = client(&server);
    running.pause();
    client.send(&common::query(5, POOL)).unwrap();
    running.use_tables(tables(2));
    assert_eq!(running.batches(), 0);
    running.resume();
    let mut response = [0; 512];
    let length = client.recv(&mut response).unwrap();
    assert_eq!(response[length - 2..length], [2, 0]);
}

#[test]
fn without_a_lease_queries_wait() {
    let server = server("127.0.0.1");
    let running = DatagramThread::start("test", server.as_raw_fd(), tables(1), BOUNDS.to_vec(), 0.0).unwrap();
    let client = client(&server);
    client.send(&common::query(5, POOL)).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(client.recv(&mut [0; 512]).is_err());
    assert_eq!(running.batches(), 0);
    running.renew(monotonic() + 60.0);
    until("the query is answered", || counted(&running.figures()) == 1);
}

#[test]
fn a_thread_that_stops_answers_the_waiting_queries() {
    let server = server("127.0.0.1");
    let running = DatagramThread::start("test", server.as_raw_fd(), tables(1), BOUNDS.to_vec(), 0.0).unwrap();
    let client = client(&server);
    for id in 0..200 {
        client.send(&common::query(id, POOL)).unwrap();
    }
    client.send(&common::query(200, UNKNOWN)).unwrap();
    running.stop();
    running.stop();
    assert_eq!(counted(&running.figures()), 200);
    assert_eq!(running.slow().take(usize::MAX).len(), 1);
    running.pause(); // returns at once: a thread that has ended cannot pause
}
