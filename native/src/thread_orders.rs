//! What Python orders a thread to do: pause, go on, use other tables, end. Without sockets, so that every order of
//! events can be checked.

use crate::sync::{lock, wait, Arc, Condvar, Mutex, MutexGuard};

/// What the thread does, or is asked to do.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Answers,
    ShallPause,
    Paused,
    ShallEnd,
    Ended,
}

struct Orders<T, S> {
    phase: Phase,
    tables: Arc<T>,
    sampler: Option<S>,
}

/// The orders for one thread: `T` are the tables to use, `S` a sampler to use from now on.
///
/// The methods that the thread does not call take a function that wakes it. They call it after each change.
pub struct ThreadOrders<T, S> {
    orders: Mutex<Orders<T, S>>,
    changed: Condvar, // the phase
}

/// What the thread finds when it obeys.
pub struct Obeyed<T, S> {
    pub tables: Arc<T>,
    pub sampler: Option<S>, // a new one
    pub ends: bool,
}

impl<T, S> ThreadOrders<T, S> {
    pub fn new(tables: T) -> Self {
        let orders = Orders { phase: Phase::Answers, tables: Arc::new(tables), sampler: None };
        ThreadOrders { orders: Mutex::new(orders), changed: Condvar::new() }
    }

    /// Use other tables from now on. The thread must be paused.
    pub fn use_tables(&self, tables: T) {
        lock(&self.orders).tables = Arc::new(tables);
    }

    /// Use another sampler from the next batch on.
    pub fn use_sampler(&self, sampler: S, wake: impl Fn()) {
        lock(&self.orders).sampler = Some(sampler);
        wake();
    }

    /// Wait until the thread has paused or ended. A paused thread uses no tables until `resume` is called.
    pub fn pause(&self, wake: impl Fn()) {
        let mut orders = lock(&self.orders);
        if orders.phase == Phase::Answers {
            orders.phase = Phase::ShallPause;
            wake();
        }
        while orders.phase == Phase::ShallPause {
            orders = wait(&self.changed, orders);
        }
    }

    pub fn resume(&self) {
        let mut orders = lock(&self.orders);
        if matches!(orders.phase, Phase::ShallPause | Phase::Paused) {
            self.enter(&mut orders, Phase::Answers);
        }
    }

    /// Ask the thread to end.
    pub fn end(&self, wake: impl Fn()) {
        let mut orders = lock(&self.orders);
        if orders.phase != Phase::Ended {
            self.enter(&mut orders, Phase::ShallEnd);
            wake();
        }
    }

    /// Record that the thread has ended.
    pub fn note_end(&self) {
        self.enter(&mut lock(&self.orders), Phase::Ended);
    }

    /// Called by the thread before each batch: pause if asked to, and return what to do next.
    pub fn obey(&self) -> Obeyed<T, S> {
        let mut orders = lock(&self.orders);
        while matches!(orders.phase, Phase::ShallPause | Phase::Paused) {
            if orders.phase == Phase::ShallPause {
                self.enter(&mut orders, Phase::Paused);
            }
            orders = wait(&self.changed, orders);
        }
        let sampler = orders.sampler.take();
        Obeyed { tables: orders.tables.clone(), sampler, ends: orders.phase == Phase::ShallEnd }
    }

    fn enter(&self, orders: &mut MutexGuard<'_, Orders<T, S>>, phase: Phase) {
        orders.phase = phase;
        self.changed.notify_all();
    }
}
