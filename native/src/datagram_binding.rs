//! The Python classes for batches of queries, which only convert types.

use std::net::IpAddr;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::binding::{AnswerTable, FamilyAffinity, RateLimiter, RetransmissionCache, ServerCookies};
use crate::fast_path::Context;
use crate::{datagram_batch, query_sampler};

/// The destination of the response to a query that takes the slow path.
#[pyclass(frozen)]
pub struct Peer(datagram_batch::Peer);

/// The buffers for one UDP socket. Python owns the socket and must keep it open.
#[pyclass]
pub struct DatagramBatch(datagram_batch::DatagramBatch);

type Unanswered<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyTuple>, Peer)>;
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

#[pymethods]
impl DatagramBatch {
    #[new]
    fn new() -> DatagramBatch {
        DatagramBatch(datagram_batch::DatagramBatch::new())
    }

    /// Read at most one batch of queries, and send the answers from the fast path.
    ///
    /// Returns the number of queries read, the number of responses that the kernel refused, the number of queries shed
    /// during overload, and the queries for the slow path, as (query, client address, peer). Raises OSError if reading
    /// fails.
    #[allow(clippy::too_many_arguments)]
    fn drain<'py>(
        &mut self,
        py: Python<'py>,
        fd: i32,
        table: &mut AnswerTable,
        limiter: &mut RateLimiter,
        retransmissions: &mut RetransmissionCache,
        affinity: &mut FamilyAffinity,
        cookies: Option<&ServerCookies>,
        now: f64,
        wall: f64,
        overloaded: bool,
    ) -> PyResult<(usize, usize, usize, Unanswered<'py>)> {
        let mut context = Context {
            table: &mut table.0,
            limiter: &mut limiter.0,
            retransmissions: &mut retransmissions.0,
            affinity: &mut affinity.0,
            cookies: cookies.map(|cookies| &cookies.0),
            now,
            wall: wall as u64,
        };
        let done = self.0.drain(fd, &mut context, overloaded).map_err(PyOSError::new_err)?;
        let mut unanswered = Vec::with_capacity(done.unanswered.len());
        for query in done.unanswered {
            let Some(client) = client(py, &query.peer)? else { continue };
            unanswered.push((PyBytes::new(py, &query.query), client, Peer(query.peer)));
        }
        Ok((done.queries, done.unsent, done.shed, unanswered))
    }

    /// Set the fraction of queries to sample for the query log; 0 stops sampling.
    fn sample(&mut self, part: f64, seed: u64) -> PyResult<()> {
        if !(0.0..=1.0).contains(&part) {
            return Err(PyValueError::new_err("the fraction must be between 0 and 1"));
        }
        self.0.sampler = (part > 0.0).then(|| query_sampler::QuerySampler::new(part, seed));
        Ok(())
    }

    /// Return the last batch's samples: finished ones as (query, client address, response or None, seconds), and the
    /// indices of the sampled queries left for the slow path.
    fn take_samples<'py>(&mut self, py: Python<'py>) -> PyResult<(Samples<'py>, Vec<usize>)> {
        let mut samples = Vec::with_capacity(self.0.samples.len());
        for sample in self.0.samples.drain(..) {
            let Some(client) = client(py, &sample.peer)? else { continue };
            let response = sample.response.map(|response| PyBytes::new(py, &response));
            samples.push((PyBytes::new(py, &sample.query), client, response, sample.took.as_secs_f64()));
        }
        Ok((samples, std::mem::take(&mut self.0.sampled_unanswered)))
    }

    /// Send the response to a query that took the slow path, and return whether the kernel accepted the response.
    #[staticmethod]
    fn reply(fd: i32, peer: &Peer, response: &[u8]) -> bool {
        datagram_batch::reply(fd, &peer.0, response)
    }
}
