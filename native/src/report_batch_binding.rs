//! The Python class for batches of report datagrams, which only converts types.

use pyo3::exceptions::{PyIndexError, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::report_acceptor_binding::{Origin, ReportAcceptor, Target};
use crate::report_batch;

/// The receive buffers for one socket. Python owns the socket and must keep it open.
#[pyclass]
pub struct ReportBatch(report_batch::ReportBatch);

#[pymethods]
impl ReportBatch {
    #[new]
    fn new() -> ReportBatch {
        ReportBatch(report_batch::ReportBatch::new())
    }

    /// Read at most one batch of datagrams, and return their number. Raises OSError if reading fails.
    fn receive(&mut self, fd: i32) -> PyResult<usize> {
        self.0.receive(fd).map_err(PyOSError::new_err)
    }

    /// Accept the datagrams from number `at` on, up to the first one that Python must judge. Returns the number of this
    /// datagram, or the size of the batch.
    fn accept(
        &self,
        py: Python<'_>,
        at: usize,
        acceptor: &mut ReportAcceptor,
        now: f64,
        wall: f64,
        target: Target<'_>,
    ) -> PyResult<usize> {
        let mut at = at;
        while let Some(datagram) = self.0.datagram(at) {
            let origin = Origin::Socket(self.0.source(at));
            if !acceptor.take(py, datagram, &origin, now, wall, &target)? {
                break;
            }
            at += 1;
        }
        Ok(at)
    }

    /// Return the bytes of datagram `at` of the last batch, up to one more than a report may have.
    fn datagram<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyBytes>> {
        let datagram = self.0.datagram(at).ok_or_else(|| PyIndexError::new_err(at))?;
        Ok(PyBytes::new(py, datagram))
    }

    /// Return the address of the sender of datagram `at` of the last batch, without port and scope.
    fn source(&self, at: usize) -> PyResult<String> {
        let address = self.0.source(at).ok_or_else(|| PyIndexError::new_err(at))?;
        Ok(address.to_string())
    }
}
