//! Model checks: loom runs every order in which the threads can take their steps.
//!
//! Run them with `cargo test --release --features loom --test models`.
#![cfg(feature = "loom")]

use std::os::fd::AsRawFd;

use lbdns_native_tests::datagram_batch::UnansweredQuery;
use lbdns_native_tests::slow_queue::SlowQueue;
use lbdns_native_tests::system::EventFd;
use lbdns_native_tests::thread_orders::{Obeyed, ThreadOrders};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use loom::sync::Arc;
use loom::thread;

/// A thread as `datagram_thread.rs` runs it, whose batches only record which tables they use.
struct Model {
    orders: ThreadOrders<usize, ()>,
    wake: EventFd,
    is_valid: AtomicBool,
    is_in_batch: AtomicBool,
    used: AtomicUsize, // the tables that the last batch used
}

impl Model {
    fn new(is_valid: bool) -> Arc<Model> {
        Arc::new(Model {
            orders: ThreadOrders::new(1),
            wake: EventFd::new().unwrap(),
            is_valid: AtomicBool::new(is_valid),
            is_in_batch: AtomicBool::new(false),
            used: AtomicUsize::new(0),
        })
    }

    /// Answer at most `batches` batches without waiting, and then wait for orders before each further one.
    fn run(&self, batches: usize) {
        for batch in 0.. {
            let Obeyed { tables, ends, .. } = self.orders.obey();
            if ends {
                break;
            }
            if !self.is_valid.load(SeqCst) || batch >= batches {
                self.wake.wait();
                self.wake.clear();
                continue;
            }
            self.is_in_batch.store(true, SeqCst);
            self.used.store(*tables, SeqCst);
            self.is_in_batch.store(false, SeqCst);
        }
        self.orders.note_end();
    }

    fn end(&self) {
        self.orders.end(|| self.wake.signal());
    }
}

fn started(model: &Arc<Model>, batches: usize) -> thread::JoinHandle<()> {
    let own = model.clone();
    thread::spawn(move || own.run(batches))
}

#[test]
fn a_paused_thread_is_in_no_batch_and_goes_on_with_the_new_tables() {
    loom::model(|| {
        let model = Model::new(true);
        let handle = started(&model, 2);
        model.orders.pause(|| model.wake.signal());
        assert!(!model.is_in_batch.load(SeqCst));
        model.orders.use_tables(2);
        let before = model.used.load(SeqCst);
        assert!(before < 2);
        model.orders.resume();
        model.end();
        handle.join().unwrap();
        assert!([before, 2].contains(&model.used.load(SeqCst)));
    });
}

#[test]
fn a_thread_without_a_lease_ends_and_pauses_when_asked() {
    loom::model(|| {
        let model = Model::new(false);
        let handle = started(&model, 1);
        model.orders.pause(|| model.wake.signal());
        model.orders.resume();
        model.end();
        handle.join().unwrap();
        assert_eq!(model.used.load(SeqCst), 0);
    });
}

#[test]
fn a_renewed_lease_wakes_the_thread() {
    loom::model(|| {
        let model = Model::new(false);
        let own = model.clone();
        let handle = thread::spawn(move || {
            while !own.is_valid.load(SeqCst) {
                own.wake.wait();
                own.wake.clear();
            }
        });
        model.is_valid.store(true, SeqCst);
        model.wake.signal();
        handle.join().unwrap(); // loom reports a deadlock if the signal gets lost
    });
}

#[test]
fn a_pause_during_an_end_delays_neither() {
    loom::model(|| {
        let model = Model::new(true);
        let handle = started(&model, 1);
        let other = model.clone();
        let second = thread::spawn(move || {
            other.orders.pause(|| other.wake.signal());
            other.orders.resume();
        });
        model.end();
        second.join().unwrap();
        handle.join().unwrap();
    });
}

#[test]
fn the_queue_is_readable_whenever_queries_wait() {
    loom::model(|| {
        let queue = Arc::new(SlowQueue::new().unwrap());
        let own = queue.clone();
        let handle = thread::spawn(move || {
            own.add(vec![UnansweredQuery(1)]);
            own.add(vec![UnansweredQuery(2), UnansweredQuery(3)]);
        });
        let mut taken: Vec<usize> = queue.take(1).into_iter().map(|query| query.0).collect();
        taken.extend(queue.take(8).into_iter().map(|query| query.0));
        handle.join().unwrap();
        let is_readable = queue.as_raw_fd() == 1;
        let rest: Vec<usize> = queue.take(8).into_iter().map(|query| query.0).collect();
        assert_eq!(is_readable, !rest.is_empty());
        assert_eq!(queue.as_raw_fd(), 0);
        taken.extend(rest);
        assert_eq!(taken, [1, 2, 3]);
    });
}
