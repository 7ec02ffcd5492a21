//! The Python class for report datagrams, which only converts types.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::report_envelope::{Body, Envelope, Key};

/// Names of metrics as Python strings: all reports share them, and their hashes are computed once.
static NAMES: LazyLock<Mutex<HashMap<Box<str>, Py<PyString>>>> = LazyLock::new(Mutex::default);
const MAX_NAMES: usize = 1024; // kept; an agent may invent names

#[pyclass(frozen)]
pub struct ReportEnvelope {
    #[pyo3(get)]
    datagram: Py<PyBytes>,
    #[pyo3(get)]
    host: Py<PyString>,
    #[pyo3(get)]
    key_id: Py<PyBytes>,
}

#[pymethods]
impl ReportEnvelope {
    /// Split a datagram into its fields, or return None if only Python can tell what is wrong with it.
    #[staticmethod]
    fn open(datagram: Bound<'_, PyBytes>) -> Option<ReportEnvelope> {
        let py = datagram.py();
        let envelope = Envelope::open(datagram.as_bytes())?;
        let host = PyString::new(py, envelope.host).unbind();
        let key_id = PyBytes::new(py, envelope.key_id).unbind();
        Some(ReportEnvelope { host, key_id, datagram: datagram.unbind() })
    }

    /// Return whether the tag was made with `key`, an `AgentKey`.
    fn signed_by(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let secret = key.getattr("secret")?;
        let secret = secret.downcast::<PyBytes>()?;
        let envelope = Envelope::open(self.datagram.as_bytes(key.py()));
        let key = Key::new(secret.as_bytes());
        Ok(envelope.zip(key).is_some_and(|(envelope, key)| envelope.is_signed(&key)))
    }

    /// Return the fields of the `Report`, or None if Python must decode the body.
    fn decode<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let envelope = Envelope::open(self.datagram.as_bytes(py));
        let Some(body) = envelope.and_then(|envelope| Body::decode(envelope.body)) else { return Ok(None) };
        fields(py, &self.host, &body).map(Some)
    }
}

/// Return the fields of the `Report` of `host` in the order of the named tuple.
fn fields<'py>(py: Python<'py>, host: &Py<PyString>, body: &Body<'_>) -> PyResult<Bound<'py, PyTuple>> {
    let kind = match body.kind {
        "data" => intern!(py, "data").clone(), // almost every report
        other => PyString::new(py, other),
    };
    let metrics = metrics(py, body)?;
    let addresses = PyTuple::new(py, &body.addresses)?;
    (host, body.boot, body.seq, body.time, body.interval, metrics, kind, body.alarm, body.pool, addresses)
        .into_pyobject(py)
}

fn metrics<'py>(py: Python<'py>, body: &Body<'_>) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    for &(name, value) in &body.metrics {
        found.set_item(metric_name(py, name), value)?;
    }
    Ok(found)
}

/// Return the name of a metric as a Python string.
pub fn metric_name(py: Python<'_>, name: &str) -> Py<PyString> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known.clone_ref(py);
    }
    let new = PyString::new(py, name).unbind();
    if names.len() < MAX_NAMES {
        names.insert(name.into(), new.clone_ref(py));
    }
    new
}
