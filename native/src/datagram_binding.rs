//! The Python classes for batches of queries, which only convert types.

use std::net::IpAddr;
use std::os::fd::AsRawFd;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::binding::{AnswerTable, FamilyAffinity, RateLimiter, RetransmissionCache, ServerCookies};
use crate::datagram_batch::Room;
use crate::query_sampler::QuerySampler;
use crate::tables::Tables;
use crate::{datagram_batch, datagram_thread};

/// The destination of the response to a query that takes the slow path.
#[pyclass(frozen)]
pub struct Peer(datagram_batch::Peer);

/// The buffers for one UDP socket. Python owns the socket and must keep it open.
#[pyclass]
pub struct DatagramBatch(datagram_batch::DatagramBatch);

/// A thread that answers the queries on one UDP socket.
#[pyclass(frozen)]
pub struct DatagramThread(datagram_thread::DatagramThread);

type Unanswered<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyTuple>, Peer, bool)>;
type TimedSample<'py> = (f64, Bound<'py, PyBytes>, Bound<'py, PyTuple>, Option<Bound<'py, PyBytes>>, f64);
type Samples<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyTuple>, Option<Bound<'py, PyBytes>>, f64)>;

/// Return a client's address in Python's form: (host, port) or, for IPv6, (host, port, flow information, scope id).
fn client<'py>(py: Python<'py>, peer: &datagram_batch::Peer) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let Some((address, port, flow, scope)) = peer.address() else { return Ok(None) };
    let host = if scope == 0 { address.to_string() } else { format!("{address}%{scope}") };
    Ok(Some(match address {
        IpAddr::V4(_) => (host, port).into_pyobject(py)?,
        IpAddr::V6(_) => (host, port, flow, scope).into_pyobject(py)?,
    }))
}

fn unanswered(py: Python<'_>, queries: Vec<datagram_batch::UnansweredQuery>) -> PyResult<Unanswered<'_>> {
    let mut found = Vec::with_capacity(queries.len());
    for left in queries {
        let Some(client) = client(py, &left.peer)? else { continue };
        found.push((PyBytes::new(py, &left.query), client, Peer(left.peer), left.is_sampled));
    }
    Ok(found)
}

fn tables_of(
    table: &AnswerTable,
    limiter: &RateLimiter,
    retransmissions: &RetransmissionCache,
    affinity: &FamilyAffinity,
    cookies: Option<&ServerCookies>,
) -> Tables {
    Tables {
        table: table.0.clone(),
        limiter: limiter.0.clone(),
        retransmissions: retransmissions.0.clone(),
        affinity: affinity.0.clone(),
        cookies: cookies.map(|cookies| cookies.0.clone()),
    }
}

fn sampler(part: f64, seed: u64) -> PyResult<Option<QuerySampler>> {
    if !(0.0..=1.0).contains(&part) {
        return Err(PyValueError::new_err("the fraction must be between 0 and 1"));
    }
    Ok((part > 0.0).then(|| QuerySampler::new(part, seed)))
}

#[pymethods]
impl DatagramBatch {
    #[new]
    fn new() -> DatagramBatch {
        DatagramBatch(datagram_batch::DatagramBatch::new())
    }

    /// Read at most one batch of queries, and send the answers from the fast path.
    ///
    /// Returns the number of queries read, the number of responses that the kernel refused, the number of queries shed
    /// during overload, and the queries for the slow path, as (query, client address, peer, whether it is sampled).
    /// Raises OSError if reading fails.
    #[allow(clippy::too_many_arguments)]
    fn drain<'py>(
        &mut self,
        py: Python<'py>,
        fd: i32,
        table: &AnswerTable,
        limiter: &RateLimiter,
        retransmissions: &RetransmissionCache,
        affinity: &FamilyAffinity,
        cookies: Option<&ServerCookies>,
        now: f64,
        wall: f64,
        overloaded: bool,
    ) -> PyResult<(usize, usize, usize, Unanswered<'py>)> {
        let tables = tables_of(table, limiter, retransmissions, affinity, cookies);
        let queries = self.0.receive(fd).map_err(PyOSError::new_err)?;
        let room = Room::new(overloaded);
        let done = tables.with_context(now, wall as u64, |context| self.0.answer(context, room));
        let unsent = self.0.send(fd);
        Ok((queries, unsent, done.shed, unanswered(py, done.unanswered)?))
    }

    /// Set the fraction of queries to sample for the query log; 0 stops sampling.
    fn sample(&mut self, part: f64, seed: u64) -> PyResult<()> {
        self.0.sampler = sampler(part, seed)?;
        Ok(())
    }

    /// Return the finished samples of the last batch, as (query, client address, response or None, seconds).
    fn take_samples<'py>(&mut self, py: Python<'py>) -> PyResult<Samples<'py>> {
        let mut samples = Vec::with_capacity(self.0.samples.len());
        for sample in self.0.samples.drain(..) {
            let Some(client) = client(py, &sample.peer)? else { continue };
            let response = sample.response.map(|response| PyBytes::new(py, &response));
            samples.push((PyBytes::new(py, &sample.query), client, response, sample.took.as_secs_f64()));
        }
        Ok(samples)
    }

    /// Send the response to a query that took the slow path, and return whether the kernel accepted the response.
    #[staticmethod]
    fn reply(fd: i32, peer: &Peer, response: &[u8]) -> bool {
        datagram_batch::reply(fd, &peer.0, response)
    }
}

#[pymethods]
impl DatagramThread {
    /// Start a thread with this name on a duplicate of `fd`. `bounds` are the upper ends of the buckets of response
    /// times, in seconds; the lease ends at `valid_until`, in monotonic seconds. Raises OSError.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        name: &str,
        fd: i32,
        table: &AnswerTable,
        limiter: &RateLimiter,
        retransmissions: &RetransmissionCache,
        affinity: &FamilyAffinity,
        cookies: Option<&ServerCookies>,
        bounds: Vec<f64>,
        valid_until: f64,
    ) -> PyResult<DatagramThread> {
        let tables = tables_of(table, limiter, retransmissions, affinity, cookies);
        let started = datagram_thread::DatagramThread::start(name, fd, tables, bounds, valid_until);
        Ok(DatagramThread(started.map_err(PyOSError::new_err)?))
    }

    /// Return a descriptor that is readable while queries wait for the slow path.
    fn fileno(&self) -> i32 {
        self.0.slow().as_raw_fd()
    }

    /// Return up to `most` queries for the slow path, as (query, client address, peer, whether it is sampled).
    fn take<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Unanswered<'py>> {
        unanswered(py, self.0.slow().take(most))
    }

    /// Return the finished samples, as (Unix seconds, query, client address, response or None, seconds), and how many
    /// were lost because too many waited.
    fn take_samples<'py>(&self, py: Python<'py>) -> PyResult<(Vec<TimedSample<'py>>, u64)> {
        let (waiting, lost) = self.0.samples().take();
        let mut samples = Vec::with_capacity(waiting.len());
        for (wall, sample) in waiting {
            let Some(client) = client(py, &sample.peer)? else { continue };
            let response = sample.response.map(|response| PyBytes::new(py, &response));
            samples.push((wall, PyBytes::new(py, &sample.query), client, response, sample.took.as_secs_f64()));
        }
        Ok((samples, lost))
    }

    /// Set the fraction of queries to sample for the query log; 0 stops sampling.
    fn sample(&self, part: f64, seed: u64) -> PyResult<()> {
        self.0.sample(sampler(part, seed)?);
        Ok(())
    }

    /// Answer queries until `until`, in monotonic seconds; afterwards, they wait in the socket.
    fn renew(&self, until: f64) {
        self.0.renew(until);
    }

    /// Leave only a few queries for the slow path until `until`, in monotonic seconds.
    fn shed_until(&self, until: f64) {
        self.0.shed_until(until);
    }

    /// Wait until the current batch is answered, and answer no query until `resume` is called.
    fn pause(&self, py: Python<'_>) {
        py.detach(|| self.0.pause());
    }

    /// Answer queries from these tables. Call `pause` first.
    fn resume(
        &self,
        table: &AnswerTable,
        limiter: &RateLimiter,
        retransmissions: &RetransmissionCache,
        affinity: &FamilyAffinity,
        cookies: Option<&ServerCookies>,
    ) {
        self.0.use_tables(tables_of(table, limiter, retransmissions, affinity, cookies));
        self.0.resume();
    }

    /// Read the queries that wait in the socket, and end the thread.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }

    /// The number of batches read so far.
    #[getter]
    fn batches(&self) -> u64 {
        self.0.batches()
    }

    /// Return the number of queries by bucket of their response time, the sum of the response times in seconds, and the
    /// numbers of responses that the kernel refused, of shed queries, and of queries lost by a failure.
    fn figures(&self, py: Python<'_>) -> (Vec<u64>, f64, u64, u64, u64) {
        let figures = py.detach(|| self.0.figures());
        (figures.counts, figures.seconds, figures.unsent, figures.shed, figures.failed)
    }
}
