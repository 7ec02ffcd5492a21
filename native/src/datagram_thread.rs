//! The thread that owns one UDP socket: it answers common queries without the interpreter, and leaves the others to it.
//!
//! Python controls the thread through `DatagramThread`. The thread never waits for Python, except while it is paused. It
//! answers only while its lease lasts, which Python renews: if the interpreter hangs, the plans become outdated.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::datagram_batch::{DatagramBatch, BATCH};
use crate::query_sampler::QuerySampler;
use crate::slow_queue::{SampleQueue, SlowQueue};
use crate::sync::lock;
use crate::system::{self, EventFd};
use crate::tables::Tables;
use crate::thread_orders::{Obeyed, ThreadOrders};

const LAST_BATCHES: usize = 1024; // to answer before the thread ends: a full receive buffer
const UNREADABLE: Duration = Duration::from_millis(1); // to wait after an error: it may last

/// The counters of a thread. A client that has received an answer finds it counted.
#[derive(Clone, Default)]
pub struct Figures {
    pub counts: Vec<u64>, // queries, by bucket of their response time
    pub seconds: f64,     // the sum of all response times
    pub unsent: u64,      // responses that the kernel refused
    pub shed: u64,        // slow-path queries left unanswered because of overload
    pub failed: u64,      // queries lost by a panic
}

struct Shared {
    orders: ThreadOrders<Tables, Option<QuerySampler>>,
    wake: EventFd, // signalled after each change of the orders
    slow: SlowQueue,
    samples: SampleQueue,
    bounds: Vec<f64>, // s: the upper ends of the buckets, except the last one
    figures: Mutex<Figures>,
    batches: AtomicU64,
    valid_until: AtomicU64, // the end of the lease: the bits of monotonic seconds
    shed_until: AtomicU64,  // the end of the overload, in the same form
}

/// A running thread. Dropping the value stops the thread.
pub struct DatagramThread {
    shared: Arc<Shared>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl DatagramThread {
    /// Start a thread that answers the queries on a duplicate of `fd`. Response times are counted in buckets that end at
    /// `bounds`, in seconds. The lease ends at `valid_until`, in monotonic seconds.
    pub fn start(name: &str, fd: RawFd, tables: Tables, bounds: Vec<f64>, valid_until: f64) -> io::Result<Self> {
        let socket = system::duplicate(fd)?;
        let figures = Figures { counts: vec![0; bounds.len() + 1], ..Figures::default() };
        let shared = Arc::new(Shared {
            orders: ThreadOrders::new(tables),
            wake: EventFd::new()?,
            slow: SlowQueue::new()?,
            samples: SampleQueue::default(),
            bounds,
            figures: Mutex::new(figures),
            batches: AtomicU64::new(0),
            valid_until: AtomicU64::new(valid_until.to_bits()),
            shed_until: AtomicU64::new(0),
        });
        let own = shared.clone();
        let handle = thread::Builder::new().name(name.into()).spawn(move || {
            system::block_signals();
            system::give_up_capabilities();
            let ending = Ending(own);
            ending.0.run(socket);
        })?;
        Ok(DatagramThread { shared, handle: Mutex::new(Some(handle)) })
    }

    pub fn slow(&self) -> &SlowQueue {
        &self.shared.slow
    }

    pub fn samples(&self) -> &SampleQueue {
        &self.shared.samples
    }

    /// Return the number of batches read so far.
    pub fn batches(&self) -> u64 {
        self.shared.batches.load(Relaxed)
    }

    /// Return the counters, once the batch that is being answered is counted.
    pub fn figures(&self) -> Figures {
        lock(&self.shared.figures).clone()
    }

    /// Use other tables from now on. The thread must be paused.
    pub fn use_tables(&self, tables: Tables) {
        self.shared.orders.use_tables(tables);
    }

    /// Sample queries with `sampler` from the next batch on; None ends sampling.
    pub fn sample(&self, sampler: Option<QuerySampler>) {
        self.shared.orders.use_sampler(sampler, || self.shared.wake.signal());
    }

    /// Let the lease end at `until`, in monotonic seconds.
    pub fn renew(&self, until: f64) {
        self.shared.valid_until.store(until.to_bits(), Relaxed);
        self.shared.wake.signal();
    }

    /// Leave only a few queries to Python until `until`, in monotonic seconds.
    pub fn shed_until(&self, until: f64) {
        self.shared.shed_until.store(until.to_bits(), Relaxed);
    }

    /// Wait until the current batch is answered. The thread answers no other one until `resume` is called.
    pub fn pause(&self) {
        self.shared.orders.pause(|| self.shared.wake.signal());
    }

    pub fn resume(&self) {
        self.shared.orders.resume();
    }

    /// Wait until the thread has read the waiting queries, and has ended.
    pub fn stop(&self) {
        self.shared.orders.end(|| self.shared.wake.signal());
        if let Some(handle) = lock(&self.handle).take() {
            let _ = handle.join(); // a panic has been counted
        }
    }
}

impl Drop for DatagramThread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Records that the thread has ended, even if it panics.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.orders.note_end();
    }
}

impl Shared {
    fn run(&self, socket: OwnedFd) {
        let fd = socket.as_raw_fd();
        let mut batch = DatagramBatch::new();
        let mut read = 0;
        loop {
            let Obeyed { tables, sampler, ends } = self.orders.obey();
            if let Some(sampler) = sampler {
                batch.sampler = sampler;
            }
            if ends {
                let mut rest = (0..LAST_BATCHES).map(|_| self.answer_batch(fd, &mut batch, &tables));
                let _ = rest.find(|read| *read < BATCH);
                return;
            }
            if !self.is_valid() {
                self.wait([self.wake.as_raw_fd()]);
            } else if read < BATCH && !self.wait([self.wake.as_raw_fd(), fd]) {
                read = 0;
            } else {
                read = self.answer_batch(fd, &mut batch, &tables);
            }
        }
    }

    /// Wait until one of the descriptors is readable, and return whether there are neither new orders nor an expired
    /// lease. The first descriptor is that of `wake`.
    fn wait<const N: usize>(&self, descriptors: [RawFd; N]) -> bool {
        let is_woken = system::wait_for(descriptors)[0];
        if is_woken {
            self.wake.clear();
        }
        !is_woken && self.is_valid()
    }

    fn is_valid(&self) -> bool {
        system::monotonic() < f64::from_bits(self.valid_until.load(Relaxed))
    }

    /// Answer one batch of queries, and return their number.
    fn answer_batch(&self, fd: RawFd, batch: &mut DatagramBatch, tables: &Tables) -> usize {
        let Ok(read) = batch.receive(fd) else {
            thread::sleep(UNREADABLE);
            return 0;
        };
        if read == 0 {
            return 0;
        }
        self.batches.fetch_add(1, Relaxed);
        // Locked until the answers are sent: who has received an answer finds it counted
        let mut figures = lock(&self.figures);
        let begin = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = system::monotonic();
        let room = self.slow.room(now < f64::from_bits(self.shed_until.load(Relaxed)));
        let answer = || {
            lock(&tables.limiter).tick(now);
            tables.with_context(now, wall.as_secs(), |context| batch.answer(context, room))
        };
        let Ok(done) = catch_unwind(AssertUnwindSafe(answer)) else {
            figures.failed += read as u64;
            figures.count(read, begin.elapsed(), &self.bounds);
            return read;
        };
        let finished = read - done.unanswered.len();
        self.slow.add(done.unanswered);
        figures.shed += done.shed as u64;
        figures.unsent += batch.send(fd) as u64;
        figures.count(finished, begin.elapsed(), &self.bounds);
        self.samples.add(&mut batch.samples, wall.as_secs_f64());
        read
    }
}

impl Figures {
    /// Count queries that were answered one after another in `took` in total.
    fn count(&mut self, queries: usize, took: Duration, bounds: &[f64]) {
        if queries > 0 {
            let seconds = took.as_secs_f64();
            let bucket = bounds.partition_point(|bound| *bound < seconds / queries as f64);
            self.counts[bucket] += queries as u64;
            self.seconds += seconds;
        }
    }
}
