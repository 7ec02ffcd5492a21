//! The Python class that accepts the next reports of known hosts, and stores their readings.
//!
//! `ReportTable.accept` in `collector/lbdns_collector/reports/report_table.py` makes the same checks, and explains them.
//! The acceptor changes nothing before all checks have passed. It leaves every other datagram to Python, which alone
//! rejects reports.

use std::collections::HashMap;
use std::net::IpAddr;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use crate::report_binding::metric_name;
use crate::report_envelope::{Body, Envelope, Key};
use crate::report_figures::{at_least, at_most, Derived, Measured};
use crate::report_figures_binding::{HostCapacity, ReportScore};

const MAX_SKEW: f64 = 30.0; // s
const MIN_INTERVAL: f64 = 0.02; // s
const RATE: f64 = 50.0; // reports/s
const BURST: f64 = 100.0; // reports
const DERIVED: [&str; 3] = ["run_queue_per_core", "idle_worker_share", "capacity_used"];

/// Where accepted reports go: the readings and the changed members by full name, the score and the second score, the
/// longest interval in seconds, and, with a bus, whether the reports come from it.
#[derive(FromPyObject)]
pub struct Target<'py>(
    Bound<'py, PyDict>,
    Bound<'py, PyDict>,
    PyRef<'py, ReportScore>,
    Option<PyRef<'py, ReportScore>>,
    f64,
    Option<bool>,
);

/// Where a datagram comes from: the address of its sender, or a bus with a subject that names the host.
pub enum Origin<'a> {
    Socket(Option<IpAddr>),
    Bus(&'a str),
}

/// A host that has sent an authentic report.
struct KnownHost {
    peer: Py<PyAny>,
    keys: Vec<(Box<[u8]>, Key)>,
}

/// A report that has passed all checks.
struct Checked<'a, 'py> {
    host: &'a KnownHost,
    body: Body<'a>,
    tokens: f64,
    latest: f64,
    estimate: Option<Bound<'py, HostCapacity>>,
}

#[pyclass]
pub struct ReportAcceptor {
    hosts: HashMap<Box<str>, KnownHost>,
    reading: Py<PyType>,
    accepted: Py<PyType>,
    names: Vec<(Box<str>, Py<PyString>)>, // of the metrics in the last report: most reports have the same ones
}

#[pymethods]
impl ReportAcceptor {
    /// `reading` and `accepted` are the classes `Reading` and `AcceptedReport`.
    #[new]
    fn new(reading: Bound<'_, PyType>, accepted: Bound<'_, PyType>) -> ReportAcceptor {
        let (reading, accepted) = (reading.unbind(), accepted.unbind());
        ReportAcceptor { hosts: HashMap::new(), reading, accepted, names: Vec::new() }
    }

    /// Add or replace the key with which `host` signs the reports that name `key_id`. `peer` is the `ReportingPeer` of
    /// the host.
    fn add(&mut self, host: &str, key_id: &[u8], secret: &[u8], peer: Bound<'_, PyAny>) -> PyResult<()> {
        let Some(key) = Key::new(secret) else { return Err(PyValueError::new_err("not a valid key")) };
        let peer = peer.unbind();
        let before = self.hosts.remove(host).map(|known| known.keys).unwrap_or_default();
        let mut keys: Vec<_> = before.into_iter().filter(|(other, _)| **other != *key_id).collect();
        keys.push((key_id.into(), key));
        self.hosts.insert(host.into(), KnownHost { peer, keys });
        Ok(())
    }

    fn clear(&mut self) {
        self.hosts.clear();
    }

    fn __len__(&self) -> usize {
        self.hosts.len()
    }

    /// Accept a datagram from a bus, whose subject names `host`. Returns false if Python must judge the datagram.
    fn accept(
        &mut self,
        py: Python<'_>,
        datagram: &[u8],
        host: &str,
        now: f64,
        wall: f64,
        target: Target<'_>,
    ) -> PyResult<bool> {
        self.take(py, datagram, &Origin::Bus(host), now, wall, &target)
    }
}

impl ReportAcceptor {
    /// Accept a datagram. Returns false if Python must judge it. `now` is in monotonic seconds, `wall` in Unix seconds.
    pub fn take(
        &mut self,
        py: Python<'_>,
        datagram: &[u8],
        origin: &Origin<'_>,
        now: f64,
        wall: f64,
        target: &Target<'_>,
    ) -> PyResult<bool> {
        let names = std::mem::take(&mut self.names);
        let Some(checked) = self.check(py, datagram, origin, now, wall)? else {
            self.names = names;
            return Ok(false);
        };
        let Some(names) = shared_names(py, names, &checked.body.metrics) else { return Ok(false) };
        let done = self.store(py, &checked, &names, now, wall, target);
        self.names = names;
        done.map(|()| true)
    }

    fn check<'a, 'py>(
        &'a self,
        py: Python<'py>,
        datagram: &'a [u8],
        origin: &Origin<'_>,
        now: f64,
        wall: f64,
    ) -> PyResult<Option<Checked<'a, 'py>>> {
        let Some((host, body)) = self.read(datagram, origin) else { return Ok(None) };
        let peer = host.peer.bind(py);
        let last = peer.getattr(intern!(py, "accepted"))?;
        let last = last.downcast::<PyTuple>()?;
        let (tokens, filled) = (float(peer, intern!(py, "tokens"))?, float(peer, intern!(py, "filled"))?);
        let tokens = at_most(BURST, tokens + (now - filled) * RATE);
        // A host that has not been accepted has the boot -1, which is no u64
        let is_next = last.get_item(0)?.extract::<u64>().is_ok_and(|boot| boot == body.boot)
            && last.get_item(1)?.extract::<u64>()? < body.seq;
        let estimate = peer.getattr(intern!(py, "estimate"))?.downcast_into::<HostCapacity>().ok();
        let is_acceptable = body.kind == "data"
            && (body.time - wall).abs() <= MAX_SKEW
            && tokens >= 1.0
            && is_next
            && is_admitted(peer, &body, origin)?
            && (estimate.is_some() || body.metrics.is_empty());
        let latest = at_least(last.get_item(2)?.extract()?, body.time);
        Ok(is_acceptable.then_some(Checked { host, body, tokens, latest, estimate }))
    }

    /// Return the sender and the body of an authentic report.
    fn read<'a>(&'a self, datagram: &'a [u8], origin: &Origin<'_>) -> Option<(&'a KnownHost, Body<'a>)> {
        let envelope = Envelope::open(datagram)?;
        if matches!(origin, Origin::Bus(host) if *host != envelope.host) {
            return None;
        }
        let known = self.hosts.get(envelope.host)?;
        let (_, key) = known.keys.iter().find(|(key_id, _)| **key_id == *envelope.key_id)?;
        if !envelope.is_signed(key) {
            return None;
        }
        Some((known, Body::decode(envelope.body)?))
    }

    fn store(
        &self,
        py: Python<'_>,
        checked: &Checked<'_, '_>,
        names: &[(Box<str>, Py<PyString>)],
        now: f64,
        wall: f64,
        target: &Target<'_>,
    ) -> PyResult<()> {
        let (body, peer) = (&checked.body, checked.host.peer.bind(py));
        let Target(readings, changed, score, shadow, max_interval, path) = target;
        peer.setattr(intern!(py, "tokens"), checked.tokens - 1.0)?;
        peer.setattr(intern!(py, "filled"), now)?;
        peer.setattr(intern!(py, "skew"), body.time - wall)?;
        peer.setattr(intern!(py, "has_reported"), true)?;
        let fields = (body.boot, body.seq, checked.latest, wall, false);
        let accepted = py.get_type::<PyTuple>().call_method1(intern!(py, "__new__"), (&self.accepted, fields))?;
        peer.setattr(intern!(py, "accepted"), accepted)?;
        if let Some(path) = path {
            peer.getattr(intern!(py, "newest"))?.set_item(path, (body.boot, body.seq))?;
        }
        let interval = at_least(MIN_INTERVAL, at_most(*max_interval, body.interval));
        let derived = match &checked.estimate {
            Some(estimate) if !body.metrics.is_empty() => derive(estimate, body, interval, now),
            _ => Derived::default(),
        };
        let derived = [derived.run_queue_per_core, derived.idle_worker_share, derived.capacity_used];
        let metrics = metrics(py, names, body, &derived)?;
        let value = |name: &str| match DERIVED.iter().position(|each| *each == name) {
            Some(at) => derived[at],
            None => reported(body, name),
        };
        let scores = (score.of_values(value), shadow.as_ref().map(|shadow| shadow.of_values(value)));
        let reading = self.reading.call1(py, (now, interval, scores.0, metrics, "", false, scores.1))?;
        let members = peer.getattr(intern!(py, "host"))?.getattr(intern!(py, "members"))?;
        for member in members.downcast::<PyTuple>()? {
            readings.set_item(&member, &reading)?;
            changed.set_item(&member, py.None())?;
        }
        Ok(())
    }
}

/// Return whether the sender is no joined host, or asks to join with the same pool, addresses and source as before.
fn is_admitted(peer: &Bound<'_, PyAny>, body: &Body<'_>, origin: &Origin<'_>) -> PyResult<bool> {
    let py = peer.py();
    if !peer.getattr(intern!(py, "host"))?.getattr(intern!(py, "joined"))?.is_truthy()? {
        return Ok(true);
    }
    let source = match origin {
        Origin::Socket(source) => source.map(|address| address.to_canonical().to_string()),
        Origin::Bus(_) => None,
    };
    peer.getattr(intern!(py, "join_request"))?.eq((body.pool, PyTuple::new(py, &body.addresses)?, source))
}

fn float(object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyResult<f64> {
    object.getattr(name)?.extract()
}

fn reported(body: &Body<'_>, name: &str) -> Option<f64> {
    body.metrics.iter().find(|(other, _)| *other == name).map(|&(_, value)| value)
}

/// Return the names of `metrics` as Python strings, or None if a name occurs twice. `before` are those of another report.
fn shared_names(
    py: Python<'_>,
    before: Vec<(Box<str>, Py<PyString>)>,
    metrics: &[(&str, f64)],
) -> Option<Vec<(Box<str>, Py<PyString>)>> {
    let is_same = before.len() == metrics.len() && before.iter().zip(metrics).all(|(old, new)| *old.0 == *new.0);
    if is_same {
        return Some(before);
    }
    let is_twice = |at: usize| metrics[..at].iter().any(|earlier| earlier.0 == metrics[at].0);
    if (0..metrics.len()).any(is_twice) {
        return None;
    }
    Some(metrics.iter().map(|&(name, _)| (name.into(), metric_name(py, name))).collect())
}

/// Return the metrics as they are stored: those of the report in their order, and then the derived ones.
fn metrics<'py>(
    py: Python<'py>,
    names: &[(Box<str>, Py<PyString>)],
    body: &Body<'_>,
    derived: &[Option<f64>; 3],
) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    for ((text, name), (_, value)) in names.iter().zip(&body.metrics) {
        if !DERIVED.contains(&&**text) {
            found.set_item(name, value)?;
        }
    }
    for (name, value) in DERIVED.iter().zip(derived) {
        if let Some(value) = value {
            found.set_item(metric_name(py, name), value)?;
        }
    }
    Ok(found)
}

fn derive(estimate: &Bound<'_, HostCapacity>, body: &Body<'_>, interval: f64, now: f64) -> Derived {
    let value = |name| reported(body, name);
    let measured = Measured {
        cpu_count: value("cpu_count"),
        cpu_idle: value("cpu_idle"),
        cpu_steal: value("cpu_steal"),
        httpd_cpu_seconds: value("httpd_cpu_seconds"),
        requests_total: value("requests_total"),
        requests_per_s: value("requests_per_s"),
        run_queue: value("run_queue"),
        busy_workers: value("busy_workers"),
        idle_workers: value("idle_workers"),
    };
    estimate.borrow_mut().derive_values(&measured, interval, now)
}
