//! The Python classes for batches of report datagrams, which only convert types.

use std::collections::HashMap;

use pyo3::exceptions::{PyIndexError, PyOSError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyType};

use crate::report_batch;
use crate::report_binding::fields;
use crate::report_envelope::{Body, Envelope, Key};

/// The keys of the hosts whose reports may be read natively.
#[pyclass]
#[derive(Default)]
pub struct ReportKeys(HashMap<Box<str>, HostKeys>);

struct HostKeys {
    name: Py<PyString>, // all reports of the host share it, and its hash is computed once
    keys: Vec<(Box<[u8]>, Key)>,
}

#[pymethods]
impl ReportKeys {
    #[new]
    fn new() -> ReportKeys {
        ReportKeys::default()
    }

    /// Add or replace the key with which `host` signs the reports that name `key_id`.
    fn add(&mut self, host: Bound<'_, PyString>, key_id: &[u8], secret: &[u8]) -> PyResult<()> {
        let Some(key) = Key::new(secret) else { return Err(PyValueError::new_err("not a valid key")) };
        let name: Box<str> = host.to_string().into();
        let found = self.0.entry(name).or_insert_with(|| HostKeys { name: host.unbind(), keys: Vec::new() });
        found.keys.retain(|(other, _)| **other != *key_id);
        found.keys.push((key_id.into(), key));
        Ok(())
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

impl ReportKeys {
    /// Return the sender and the body of an authentic report, or None if Python must judge the datagram.
    fn read<'a>(&'a self, datagram: &'a [u8]) -> Option<(&'a Py<PyString>, Body<'a>)> {
        let envelope = Envelope::open(datagram)?;
        let host = self.0.get(envelope.host)?;
        let (_, key) = host.keys.iter().find(|(key_id, _)| **key_id == *envelope.key_id)?;
        if !envelope.is_signed(key) {
            return None;
        }
        Some((&host.name, Body::decode(envelope.body)?))
    }
}

/// The receive buffers for one socket. Python owns the socket and must keep it open.
#[pyclass]
pub struct ReportBatch {
    batch: report_batch::ReportBatch,
    report: Py<PyType>,
}

#[pymethods]
impl ReportBatch {
    /// `report` is the class of the reports to return, a named tuple.
    #[new]
    fn new(report: Bound<'_, PyType>) -> ReportBatch {
        ReportBatch { batch: report_batch::ReportBatch::new(), report: report.unbind() }
    }

    /// Read at most one batch of datagrams. Returns an item for each: the authentic report, or None if Python must judge
    /// the datagram. Raises OSError if reading fails.
    fn receive<'py>(&mut self, py: Python<'py>, fd: i32, keys: &ReportKeys) -> PyResult<Bound<'py, PyList>> {
        let count = self.batch.receive(fd).map_err(PyOSError::new_err)?;
        let class = self.report.bind(py);
        let new = py.get_type::<pyo3::types::PyTuple>().getattr(intern!(py, "__new__"))?;
        let reports = PyList::empty(py);
        for at in 0..count {
            match self.batch.datagram(at).and_then(|datagram| keys.read(datagram)) {
                Some((host, body)) => reports.append(new.call1((class, fields(py, host, &body)?))?)?,
                None => reports.append(py.None())?,
            }
        }
        Ok(reports)
    }

    /// Return the bytes of datagram `at` of the last batch, up to one more than a report may have.
    fn datagram<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyBytes>> {
        let datagram = self.batch.datagram(at).ok_or_else(|| PyIndexError::new_err(at))?;
        Ok(PyBytes::new(py, datagram))
    }

    /// Return the address of the sender of datagram `at` of the last batch, without port and scope.
    fn source(&self, at: usize) -> PyResult<String> {
        let address = self.batch.source(at).ok_or_else(|| PyIndexError::new_err(at))?;
        Ok(address.to_string())
    }
}
