//! The Python classes of the module `lbdns_native`, which only convert types.
//!
//! Each class holds its state behind a lock, so that several threads can use it. The locks are held for a few
//! microseconds, never while Python code runs, and in the order of the fields of `Tables`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::datagram_binding::{DatagramBatch, DatagramThread, Peer};
use crate::history_binding;
use crate::observed_member_binding;
use crate::planning_binding;
use crate::reading_changes_binding;
use crate::report_acceptor_binding::ReportAcceptor;
use crate::report_batch_binding::ReportBatch;
use crate::report_binding::ReportEnvelope;
use crate::report_figures_binding::{HostCapacity, ReportScore};
use crate::sync::lock;
use crate::{answer_table, cookies, datagram_batch, family_affinity, rate_limiter, retransmission_cache, siphash};

/// The version of the interface to Python; `lbdns.answering.plane` rejects extensions with another version.
const INTERFACE: u32 = 16;

type Parts = (Vec<u8>, Vec<u8>);

fn variant(parts: Parts) -> PyResult<answer_table::Variant> {
    let head = <[u8; 10]>::try_from(parts.0).map_err(|_| PyValueError::new_err("a head must have 10 bytes"))?;
    Ok(answer_table::Variant { head, tail: parts.1.into(), fragment: Default::default() })
}

/// Parse an address in the notation of Python's sockets; the scope of a link-local address (`%eth0`) is ignored.
fn address(host: &str) -> PyResult<IpAddr> {
    let plain = host.split('%').next().unwrap_or(host);
    plain.parse().map_err(|_| PyValueError::new_err(format!("{host:?} is not an IP address")))
}

#[pyclass(frozen)]
pub struct AnswerTable(pub Arc<Mutex<answer_table::AnswerTable>>);

#[pymethods]
impl AnswerTable {
    #[new]
    fn new(
        shapes: HashMap<Vec<u8>, usize>,
        cookie_shapes: HashMap<Vec<u8>, usize>,
        truncated: Vec<Parts>,
    ) -> PyResult<AnswerTable> {
        let boxed =
            |shapes: HashMap<Vec<u8>, usize>| shapes.into_iter().map(|(shape, kind)| (shape.into(), kind)).collect();
        let truncated = truncated.into_iter().map(variant).collect::<PyResult<_>>()?;
        let table = answer_table::AnswerTable::new(boxed(shapes), boxed(cookie_shapes), truncated);
        Ok(AnswerTable(Arc::new(Mutex::new(table))))
    }

    /// Add a plan cursor and return its number. Queries may join a lookup for `affinity_window` s.
    #[pyo3(signature = (affinity_window, answers = 1))]
    fn add_cursor(&self, affinity_window: f64, answers: usize) -> usize {
        let mut table = lock(&self.0);
        table.cursors.push(answer_table::Cursor::new(affinity_window, answers));
        table.cursors.len() - 1
    }

    /// Replace a cursor's plan, and return the position at which the plan before it has ended, as `position` does.
    ///
    /// Only cursors whose answers name several members use `ranking`, `probes` and `light`.
    #[pyo3(signature = (cursor, order, repeat_from, usable, ranking = Vec::new(), probes = 0, light = false))]
    #[allow(clippy::too_many_arguments)]
    fn set_plan(
        &self,
        cursor: usize,
        order: Vec<u32>,
        repeat_from: usize,
        usable: Vec<u32>,
        ranking: Vec<u32>,
        probes: usize,
        light: bool,
    ) -> PyResult<(usize, u64)> {
        if repeat_from >= order.len() {
            return Err(PyValueError::new_err("a plan needs an order, and repeat_from must be an index into it"));
        }
        let mut plan = answer_table::CursorPlan::new(order, repeat_from, &usable);
        let mut table = lock(&self.0);
        let ended = table.cursors[cursor].set_plan(&mut plan);
        if let Some(lists) = &mut table.cursors[cursor].lists {
            lists.set_plan(ranking, probes, light);
        }
        drop(table); // the old plan is freed afterwards
        Ok(ended)
    }

    /// Return a cursor's position: the index in the plan's order, and the number of completed passes.
    fn position(&self, cursor: usize) -> (usize, u64) {
        lock(&self.0).cursors[cursor].position()
    }

    fn next(&self, cursor: usize) -> PyResult<u32> {
        Ok(with_plan(&mut lock(&self.0), cursor)?.take_next())
    }

    /// Return the number of a list with the members that `next` would return.
    fn due(&self, cursor: usize) -> PyResult<u32> {
        Ok(with_plan(&mut lock(&self.0), cursor)?.due())
    }

    /// Return the members of a list, or no members if the list is no longer stored.
    fn members(&self, cursor: usize, number: u32) -> Vec<u32> {
        lock(&self.0).cursors[cursor].members(number).collect()
    }

    /// Return whether a list is stored and its first member is usable.
    fn begins_usable(&self, cursor: usize, number: u32) -> bool {
        lock(&self.0).cursors[cursor].is_usable(number)
    }

    /// `fragments` contains, by member, the first byte, the end and the number of the member's records in the tail; it
    /// is empty unless answers name several members.
    #[pyo3(signature = (key, cursor, family, kind, variants, fragments = Vec::new()))]
    #[allow(clippy::too_many_arguments)]
    fn keep(
        &self,
        key: &[u8],
        cursor: Option<usize>,
        family: Option<usize>,
        kind: usize,
        variants: Vec<Parts>,
        fragments: Vec<(usize, usize, u16)>,
    ) -> PyResult<()> {
        family.map_or(Ok(()), demand_type)?;
        let mut variants = variants.into_iter().map(variant).collect::<PyResult<Vec<_>>>()?;
        for (variant, (begin, end, records)) in variants.iter_mut().zip(fragments) {
            if begin > end || end > variant.tail.len() {
                return Err(PyValueError::new_err("a fragment must lie within its tail"));
            }
            variant.fragment = answer_table::Fragment { begin, end, records };
        }
        lock(&self.0).keep(key, cursor, family, kind, variants);
        Ok(())
    }

    /// Remove all entries, and return the counts that `take_counts` would have returned.
    fn forget<'py>(&self, py: Python<'py>) -> Vec<(Bound<'py, PyBytes>, u64)> {
        let (entries, counts) = lock(&self.0).forget();
        drop(entries);
        counted(py, counts)
    }

    fn take_counts<'py>(&self, py: Python<'py>) -> Vec<(Bound<'py, PyBytes>, u64)> {
        let counts = lock(&self.0).take_counts();
        counted(py, counts)
    }
}

fn counted(py: Python<'_>, counts: Vec<(Arc<[u8]>, u64)>) -> Vec<(Bound<'_, PyBytes>, u64)> {
    counts.into_iter().map(|(key, queries)| (PyBytes::new(py, &key), queries)).collect()
}

/// Return a cursor with a plan; raises ValueError if no plan has been set.
fn with_plan(table: &mut answer_table::AnswerTable, number: usize) -> PyResult<&mut answer_table::Cursor> {
    let cursor = &mut table.cursors[number];
    if !cursor.has_plan() {
        return Err(PyValueError::new_err("no plan is set"));
    }
    Ok(cursor)
}

#[pyclass(frozen)]
pub struct RateLimiter(pub Arc<Mutex<rate_limiter::RateLimiter>>);

#[pymethods]
impl RateLimiter {
    #[new]
    fn new(
        limit: u32,
        slip: u32,
        ipv4_prefix: u8,
        ipv6_prefix: u8,
        exempt: Vec<(String, u8)>,
    ) -> PyResult<RateLimiter> {
        let exempt = exempt
            .into_iter()
            .map(|(host, prefix)| Ok(rate_limiter::Network { address: address(&host)?, prefix }))
            .collect::<PyResult<_>>()?;
        let rules = rate_limiter::Rules { limit, slip, ipv4_prefix, ipv6_prefix, exempt };
        Ok(RateLimiter(Arc::new(Mutex::new(rate_limiter::RateLimiter::new(rules)))))
    }

    fn tick(&self, now: f64) {
        lock(&self.0).tick(now);
    }

    fn count(&self, host: &str, kind: &[u8]) -> PyResult<u32> {
        let address = address(host)?;
        Ok(lock(&self.0).count(address, kind))
    }

    fn drops(&self, over: u32, host: &str) -> PyResult<bool> {
        let address = address(host)?;
        Ok(lock(&self.0).drops(over, address))
    }

    #[getter]
    fn dropped(&self) -> u64 {
        lock(&self.0).dropped
    }

    #[getter]
    fn cut(&self) -> u64 {
        lock(&self.0).cut
    }

    #[getter]
    fn last(&self) -> String {
        let last = lock(&self.0).last;
        last.map_or_else(String::new, |address| address.to_string())
    }
}

#[pyclass(frozen)]
pub struct RetransmissionCache(pub Arc<Mutex<retransmission_cache::RetransmissionCache>>);

#[pymethods]
impl RetransmissionCache {
    #[new]
    fn new() -> RetransmissionCache {
        RetransmissionCache(Arc::default())
    }

    fn mark(&self, host: &str, port: u16, query: &[u8]) -> PyResult<u64> {
        let address = address(host)?;
        Ok(lock(&self.0).mark(address, port, query))
    }

    fn member(&self, mark: u64, now: f64) -> Option<u32> {
        lock(&self.0).member(mark, now)
    }

    fn note(&self, mark: u64, member: u32, now: f64) {
        lock(&self.0).note(mark, member, now);
    }

    fn count_repeated(&self) {
        lock(&self.0).repeated += 1;
    }

    #[getter]
    fn repeated(&self) -> u64 {
        lock(&self.0).repeated
    }
}

#[pyclass(frozen)]
pub struct FamilyAffinity(pub Arc<Mutex<family_affinity::FamilyAffinity>>);

#[pymethods]
impl FamilyAffinity {
    #[new]
    fn new() -> FamilyAffinity {
        FamilyAffinity(Arc::default())
    }

    fn mark(&self, host: &str, number: usize) -> PyResult<u64> {
        let address = address(host)?;
        Ok(lock(&self.0).mark(address, number))
    }

    fn member(&self, mark: u64, port: u16, family: usize, now: f64, window: f64) -> PyResult<Option<u32>> {
        demand_type(family)?;
        Ok(lock(&self.0).member(mark, port, family, now, window))
    }

    /// `cursor` must be a plan cursor that is backed by a native `AnswerTable`.
    fn give(&self, cursor: &Bound<'_, PyAny>, host: &str, port: u16, family: usize, now: f64) -> PyResult<u32> {
        demand_type(family)?;
        let number = cursor.getattr("number")?.extract()?;
        let store = cursor.getattr("store")?.extract::<PyRef<'_, AnswerTable>>()?;
        let address = address(host)?;
        let mut table = lock(&store.0);
        let cursor = with_plan(&mut table, number)?;
        let member = lock(&self.0).give((address, port), number, cursor, family, now);
        Ok(member)
    }

    #[getter]
    fn coherent(&self) -> u64 {
        lock(&self.0).coherent
    }
}

fn demand_type(family: usize) -> PyResult<()> {
    if family < family_affinity::TYPES {
        return Ok(());
    }
    Err(PyValueError::new_err("the type must be a number below 3: A, AAAA or HTTPS"))
}

#[pyclass(frozen)]
pub struct ServerCookies(pub Arc<cookies::ServerCookies>);

#[pymethods]
impl ServerCookies {
    #[new]
    fn new(secrets: Vec<Vec<u8>>) -> PyResult<ServerCookies> {
        let secrets: Vec<[u8; siphash::KEY]> = secrets
            .into_iter()
            .map(|secret| secret.try_into().map_err(|_| PyValueError::new_err("a cookie secret must have 16 bytes")))
            .collect::<PyResult<_>>()?;
        if secrets.is_empty() {
            return Err(PyValueError::new_err("cookies need at least one secret"));
        }
        Ok(ServerCookies(Arc::new(cookies::ServerCookies::new(secrets))))
    }

    fn answer<'py>(
        &self,
        py: Python<'py>,
        cookie: &[u8],
        host: &str,
        wall: f64,
    ) -> PyResult<(Bound<'py, PyBytes>, bool)> {
        if cookie.len() < cookies::CLIENT {
            return Err(PyValueError::new_err("a cookie must have at least 8 bytes"));
        }
        let (answer, valid) = self.0.answer(cookie, address(host)?, wall as u64);
        Ok((PyBytes::new(py, &answer), valid))
    }
}

#[pymodule]
fn lbdns_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add("BATCH", datagram_batch::BATCH)?;
    module.add_class::<AnswerTable>()?;
    module.add_class::<RateLimiter>()?;
    module.add_class::<RetransmissionCache>()?;
    module.add_class::<FamilyAffinity>()?;
    module.add_class::<ServerCookies>()?;
    module.add_class::<Peer>()?;
    module.add_class::<DatagramBatch>()?;
    module.add_class::<DatagramThread>()?;
    module.add_class::<ReportEnvelope>()?;
    module.add_class::<ReportAcceptor>()?;
    module.add_class::<ReportBatch>()?;
    module.add_class::<ReportScore>()?;
    module.add_class::<HostCapacity>()?;
    history_binding::add_functions(module)?;
    observed_member_binding::add_classes(module)?;
    reading_changes_binding::add_classes(module)?;
    planning_binding::add_functions(module)
}
