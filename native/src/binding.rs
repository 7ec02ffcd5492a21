//! What Python sees: conversions only.
//!
//! The interpreter's lock is kept while a batch is answered: nothing in it waits, and giving the lock away means waiting
//! for it up to 5 ms while another thread reads a large zone.

use std::collections::HashMap;
use std::net::IpAddr;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::answer::Context;
use crate::{batch, coherence, cookies, limit, recent, sample, siphash, table};

type Parts = (Vec<u8>, Vec<u8>);

fn variant(parts: Parts) -> PyResult<table::Variant> {
    let head = <[u8; 10]>::try_from(parts.0).map_err(|_| PyValueError::new_err("a head has 10 bytes"))?;
    Ok(table::Variant { head, tail: parts.1.into() })
}

/// An address as Python's sockets write it, without the zone of a link-local one.
fn address(host: &str) -> PyResult<IpAddr> {
    let plain = host.split('%').next().unwrap_or(host);
    plain.parse().map_err(|_| PyValueError::new_err(format!("{host:?} is no address")))
}

#[pyclass]
struct Table(table::Table);

#[pymethods]
impl Table {
    #[new]
    fn new(ways: HashMap<Vec<u8>, usize>, cookie_ways: HashMap<Vec<u8>, usize>, cuts: Vec<Parts>) -> PyResult<Table> {
        let boxed = |ways: HashMap<Vec<u8>, usize>| ways.into_iter().map(|(way, kind)| (way.into(), kind)).collect();
        let cuts = cuts.into_iter().map(variant).collect::<PyResult<_>>()?;
        Ok(Table(table::Table::new(boxed(ways), boxed(cookie_ways), cuts)))
    }

    /// A place for one more plan, whose hand-outs other types can join for so long (s).
    fn add_cursor(&mut self, coherence: f64) -> usize {
        self.0.cursors.push(table::Cursor::new(coherence));
        self.0.cursors.len() - 1
    }

    fn set_plan(&mut self, cursor: usize, order: Vec<u32>, repeat_from: usize, usable: Vec<u32>) -> PyResult<()> {
        if repeat_from >= order.len() {
            return Err(PyValueError::new_err("a plan has an order, and repeats from inside it"));
        }
        self.0.cursors[cursor].set_plan(order, repeat_from, &usable);
        Ok(())
    }

    /// How far a plan has been given out: the place in its order, and how often it came to its end.
    fn handed(&self, cursor: usize) -> (usize, u64) {
        let cursor = &self.0.cursors[cursor];
        (cursor.at, cursor.passes)
    }

    fn next(&mut self, cursor: usize) -> PyResult<u32> {
        Ok(self.cursor(cursor)?.hand_out())
    }

    fn keep(
        &mut self,
        key: &[u8],
        cursor: Option<usize>,
        together: Option<usize>,
        kind: usize,
        variants: Vec<Parts>,
    ) -> PyResult<()> {
        together.map_or(Ok(()), demand_type)?;
        let variants = variants.into_iter().map(variant).collect::<PyResult<_>>()?;
        self.0.keep(key, cursor, together, kind, variants);
        Ok(())
    }

    fn forget(&mut self) {
        self.0.forget();
    }

    fn take_asked<'py>(&mut self, py: Python<'py>) -> Vec<(Bound<'py, PyBytes>, u64)> {
        self.0.take_asked().into_iter().map(|(key, asked)| (PyBytes::new(py, key), asked)).collect()
    }
}

impl Table {
    /// A cursor that can hand out.
    fn cursor(&mut self, number: usize) -> PyResult<&mut table::Cursor> {
        let cursor = &mut self.0.cursors[number];
        if cursor.order.is_empty() {
            return Err(PyValueError::new_err("no plan is set"));
        }
        Ok(cursor)
    }
}

#[pyclass]
struct Limiter(limit::Limiter);

#[pymethods]
impl Limiter {
    #[new]
    fn new(limit: u32, slip: u32, ipv4_prefix: u8, ipv6_prefix: u8, exempt: Vec<(String, u8)>) -> PyResult<Limiter> {
        let exempt = exempt
            .into_iter()
            .map(|(host, prefix)| Ok(limit::Network { address: address(&host)?, prefix }))
            .collect::<PyResult<_>>()?;
        Ok(Limiter(limit::Limiter::new(limit::Rules { limit, slip, ipv4_prefix, ipv6_prefix, exempt })))
    }

    fn tick(&mut self, now: f64) {
        self.0.tick(now);
    }

    fn count(&mut self, host: &str, kind: &[u8]) -> PyResult<u32> {
        Ok(self.0.count(address(host)?, kind))
    }

    fn drops(&mut self, over: u32, host: &str) -> PyResult<bool> {
        Ok(self.0.drops(over, address(host)?))
    }

    #[getter]
    fn dropped(&self) -> u64 {
        self.0.dropped
    }

    #[getter]
    fn cut(&self) -> u64 {
        self.0.cut
    }

    #[getter]
    fn last(&self) -> String {
        self.0.last.map_or_else(String::new, |address| address.to_string())
    }
}

#[pyclass]
struct Recent(recent::Recent);

#[pymethods]
impl Recent {
    #[new]
    fn new() -> Recent {
        Recent(recent::Recent::new())
    }

    fn mark(&self, host: &str, port: u16, query: &[u8]) -> PyResult<u64> {
        Ok(self.0.mark(address(host)?, port, query))
    }

    fn member(&self, mark: u64, now: f64) -> Option<u32> {
        self.0.member(mark, now)
    }

    fn note(&mut self, mark: u64, member: u32, now: f64) {
        self.0.note(mark, member, now);
    }

    #[getter]
    fn repeated(&self) -> u64 {
        self.0.repeated
    }

    #[setter]
    fn set_repeated(&mut self, repeated: u64) {
        self.0.repeated = repeated;
    }
}

#[pyclass]
struct Coherence(coherence::Coherence);

#[pymethods]
impl Coherence {
    #[new]
    fn new() -> Coherence {
        Coherence(coherence::Coherence::new())
    }

    fn mark(&self, host: &str, handout: usize) -> PyResult<u64> {
        Ok(self.0.mark(address(host)?, handout))
    }

    fn member(&self, mark: u64, which: usize, since: f64) -> PyResult<Option<u32>> {
        demand_type(which)?;
        Ok(self.0.member(mark, which, since))
    }

    /// `handout` is one whose cursor is in a table of ours.
    fn give(&mut self, handout: &Bound<'_, PyAny>, host: &str, which: usize, now: f64) -> PyResult<u32> {
        demand_type(which)?;
        let number = handout.getattr("number")?.extract()?;
        let mut table = handout.getattr("compiled")?.extract::<PyRefMut<'_, Table>>()?;
        let cursor = table.cursor(number)?;
        Ok(self.0.give(address(host)?, number, cursor, which, now))
    }

    #[getter]
    fn coherent(&self) -> u64 {
        self.0.coherent
    }

    #[setter]
    fn set_coherent(&mut self, coherent: u64) {
        self.0.coherent = coherent;
    }
}

fn demand_type(which: usize) -> PyResult<()> {
    if which < coherence::TYPES {
        return Ok(());
    }
    Err(PyValueError::new_err("there are not so many types that belong together"))
}

#[pyclass]
struct Cookies(cookies::Cookies);

#[pymethods]
impl Cookies {
    #[new]
    fn new(secrets: Vec<Vec<u8>>) -> PyResult<Cookies> {
        let secrets: Vec<[u8; siphash::KEY]> = secrets
            .into_iter()
            .map(|secret| secret.try_into().map_err(|_| PyValueError::new_err("a secret has 16 bytes")))
            .collect::<PyResult<_>>()?;
        if secrets.is_empty() {
            return Err(PyValueError::new_err("cookies need a secret"));
        }
        Ok(Cookies(cookies::Cookies::new(secrets)))
    }

    fn answer<'py>(
        &self,
        py: Python<'py>,
        cookie: &[u8],
        host: &str,
        wall: f64,
    ) -> PyResult<(Bound<'py, PyBytes>, bool)> {
        if cookie.len() < cookies::CLIENT {
            return Err(PyValueError::new_err("a cookie has 8 bytes or more"));
        }
        let (answer, valid) = self.0.answer(cookie, address(host)?, wall as u64);
        Ok((PyBytes::new(py, &answer), valid))
    }
}

/// Where to send the response to a query that was left aside.
#[pyclass(frozen)]
struct Peer(batch::Peer);

/// The buffers of one UDP socket, which Python holds open.
#[pyclass]
struct Batch(batch::Batch);

type Asides<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyTuple>, Peer)>;
type Samples<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyTuple>, Option<Bound<'py, PyBytes>>, f64)>;

/// The address of a client as Python's sockets have it: host, port and for IPv6 flow and scope.
fn client<'py>(py: Python<'py>, peer: &batch::Peer) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let Some((address, port, flow, scope)) = peer.address() else { return Ok(None) };
    let host = if scope == 0 { address.to_string() } else { format!("{address}%{scope}") };
    Ok(Some(match address {
        IpAddr::V4(_) => (host, port).into_pyobject(py)?,
        IpAddr::V6(_) => (host, port, flow, scope).into_pyobject(py)?,
    }))
}

#[pymethods]
impl Batch {
    #[new]
    fn new() -> Batch {
        Batch(batch::Batch::new())
    }

    /// Read and answer at most a batch: queries read, responses the kernel would not take, queries shed because we are
    /// `overloaded`, and what is left aside as (query, client address, peer). Raises OSError if reading failed.
    #[allow(clippy::too_many_arguments)]
    fn drain<'py>(
        &mut self,
        py: Python<'py>,
        fd: i32,
        table: &mut Table,
        limiter: &mut Limiter,
        recent: &mut Recent,
        coherence: &mut Coherence,
        cookies: Option<&Cookies>,
        now: f64,
        wall: f64,
        overloaded: bool,
    ) -> PyResult<(usize, usize, usize, Asides<'py>)> {
        let mut context = Context {
            table: &mut table.0,
            limiter: &mut limiter.0,
            recent: &mut recent.0,
            coherence: &mut coherence.0,
            cookies: cookies.map(|cookies| &cookies.0),
            now,
            wall: wall as u64,
        };
        let done = self.0.drain(fd, &mut context, overloaded).map_err(PyOSError::new_err)?;
        let mut asides = Vec::with_capacity(done.asides.len());
        for aside in done.asides {
            let Some(client) = client(py, &aside.peer)? else { continue };
            asides.push((PyBytes::new(py, &aside.query), client, Peer(aside.peer)));
        }
        Ok((done.queries, done.unsent, done.shed, asides))
    }

    /// Take this part of all queries for the query log from now on, by chance; 0: none.
    fn sample(&mut self, part: f64, seed: u64) -> PyResult<()> {
        if !(0.0..=1.0).contains(&part) {
            return Err(PyValueError::new_err("a part is from 0 to 1"));
        }
        self.0.sampler = (part > 0.0).then(|| sample::Sampler::new(part, seed));
        Ok(())
    }

    /// Of the last batch: what was taken and is done with, as (query, client address, response or None, seconds), and
    /// which of those that were left aside are taken.
    fn take_samples<'py>(&mut self, py: Python<'py>) -> PyResult<(Samples<'py>, Vec<usize>)> {
        let mut samples = Vec::with_capacity(self.0.samples.len());
        for sample in self.0.samples.drain(..) {
            let Some(client) = client(py, &sample.peer)? else { continue };
            let response = sample.response.map(|response| PyBytes::new(py, &response));
            samples.push((PyBytes::new(py, &sample.query), client, response, sample.took.as_secs_f64()));
        }
        Ok((samples, std::mem::take(&mut self.0.sampled_asides)))
    }

    /// Send a response to the peer of a query that was left aside. Whether the kernel took it.
    #[staticmethod]
    fn reply(fd: i32, peer: &Peer, response: &[u8]) -> bool {
        batch::reply(fd, &peer.0, response)
    }
}

#[pymodule]
fn lbdns_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("BATCH", batch::BATCH)?;
    module.add_class::<Table>()?;
    module.add_class::<Limiter>()?;
    module.add_class::<Recent>()?;
    module.add_class::<Coherence>()?;
    module.add_class::<Cookies>()?;
    module.add_class::<Peer>()?;
    module.add_class::<Batch>()
}
