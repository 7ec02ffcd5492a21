//! The Python functions for the events with changed members: one program writes them, and another reads them.
//!
//! `ReportChanges` in `lbdns_collector/status/status_document.py` writes the same text, and `read_status` in
//! `status_document_reading.py` reads it. Whatever this code does not write or read is left to Python.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::json_text::{push_float, push_integer, push_rounded, push_string, JsonText};
use crate::report_binding::metric_name;

const MAX_METRICS: usize = 256; // of one reading, as in a report
const EXPECTED: usize = 700; // bytes of a member

/// Return the JSON text of the changes of `members` (full names), or None if Python must write it.
///
/// `places` contains the pool, the zone and the name of each member, for each of its pools. `now` is in monotonic
/// seconds.
#[pyfunction]
fn encode_changes<'py>(
    members: &Bound<'py, PyList>,
    readings: &Bound<'py, PyDict>,
    places: &Bound<'py, PyDict>,
    now: f64,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = members.py();
    let mut pools: Vec<(String, Vec<u8>)> = Vec::new();
    for member in members {
        let Some(found) = places.get_item(&member)? else { continue };
        let Some(reading) = readings.get_item(&member)? else { return Ok(None) };
        for place in found.downcast::<PyList>()? {
            let (pool, zone, name): (PyBackedText, PyBackedText, PyBackedText) = place.extract()?;
            let at = pools.iter().rposition(|(known, _)| known == &*pool).unwrap_or_else(|| {
                pools.push((pool.to_string(), Vec::with_capacity(EXPECTED)));
                let out = &mut pools.last_mut().expect("just added").1;
                out.extend_from_slice(b"{\"name\":");
                push_string(out, &pool);
                out.extend_from_slice(b",\"zone\":");
                push_string(out, &zone);
                out.extend_from_slice(b",\"members\":[");
                pools.len() - 1
            });
            let out = &mut pools[at].1;
            if out.last() == Some(&b'}') {
                out.push(b',');
            }
            out.extend_from_slice(b"{\"name\":");
            push_string(out, &name);
            if push_reading(out, &reading, now, &pool)?.is_none() {
                return Ok(None);
            }
        }
    }
    let mut text = b"{\"pools\":[".to_vec();
    for (number, (_, pool)) in pools.iter().enumerate() {
        if number > 0 {
            text.push(b',');
        }
        text.extend_from_slice(pool);
        text.extend_from_slice(b"]}");
    }
    text.extend_from_slice(b"]}");
    Ok(Some(PyBytes::new(py, &text)))
}

type PyBackedText = pyo3::pybacked::PyBackedStr;

/// Append the keys of a reading, and the end of the member. Returns None if Python must write it.
fn push_reading(out: &mut Vec<u8>, reading: &Bound<'_, PyAny>, now: f64, pool: &str) -> PyResult<Option<()>> {
    let py = reading.py();
    out.extend_from_slice(b",\"score\":");
    if push_score(out, &reading.getattr(intern!(py, "score"))?).is_none() {
        return Ok(None);
    }
    let shadow = reading.getattr(intern!(py, "shadow_score"))?;
    if !shadow.is_none() {
        out.extend_from_slice(b",\"shadow_score\":");
        if push_score(out, &shadow).is_none() {
            return Ok(None);
        }
    }
    let (Ok(received), Ok(interval)) = (
        reading.getattr(intern!(py, "received"))?.downcast_into_exact::<PyFloat>(),
        reading.getattr(intern!(py, "interval"))?.downcast_into_exact::<PyFloat>(),
    ) else {
        return Ok(None);
    };
    let age = now - received.value();
    out.extend_from_slice(b",\"age_s\":");
    let has_age = if age > 0.0 { push_rounded(out, age) } else { push_float(out, 0.0) };
    out.extend_from_slice(b",\"interval_s\":");
    if has_age.is_none() || push_float(out, interval.value()).is_none() {
        return Ok(None);
    }
    let metrics = reading.getattr(intern!(py, "metrics"))?;
    out.extend_from_slice(b",\"metrics\":{");
    if push_metrics(out, &metrics)?.is_none() {
        return Ok(None);
    }
    out.extend_from_slice(b"},\"alarm\":");
    let alarm = reading.getattr(intern!(py, "alarm"))?;
    let Some(alarm) = text_of(&alarm) else { return Ok(None) };
    push_string(out, alarm);
    let Ok(gone) = reading.getattr(intern!(py, "gone"))?.downcast_into_exact::<PyBool>() else { return Ok(None) };
    out.extend_from_slice(if gone.is_true() { b",\"gone\":true" } else { b",\"gone\":false" });
    if push_failure(out, &reading.getattr(intern!(py, "failed_checks"))?, pool)?.is_none() {
        return Ok(None);
    }
    out.push(b'}');
    Ok(Some(()))
}

fn text_of<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    value.downcast_exact::<PyString>().ok()?.to_str().ok() // lone surrogates are not UTF-8
}

fn push_score(out: &mut Vec<u8>, score: &Bound<'_, PyAny>) -> Option<()> {
    if score.is_none() {
        out.extend_from_slice(b"null");
    } else {
        push_integer(out, score.downcast_exact::<PyInt>().ok()?.extract().ok()?);
    }
    Some(())
}

fn push_metrics(out: &mut Vec<u8>, metrics: &Bound<'_, PyAny>) -> PyResult<Option<()>> {
    let Ok(metrics) = metrics.downcast_exact::<PyDict>() else { return Ok(None) };
    for (number, (name, value)) in metrics.iter().enumerate() {
        let (Some(name), Ok(value)) = (text_of(&name), value.downcast_exact::<PyFloat>()) else { return Ok(None) };
        if number > 0 {
            out.push(b',');
        }
        push_string(out, name);
        out.push(b':');
        if push_float(out, value.value()).is_none() {
            return Ok(None);
        }
    }
    Ok(Some(()))
}

/// Append the error of the first failed check of `pool`, unless it has none.
fn push_failure(out: &mut Vec<u8>, checks: &Bound<'_, PyAny>, pool: &str) -> PyResult<Option<()>> {
    for check in checks.downcast::<PyTuple>()? {
        let check = check.downcast::<PyTuple>()?;
        let (checked, reason) = (check.get_item(0)?, check.get_item(1)?);
        let (Some(checked), Some(reason)) = (text_of(&checked), text_of(&reason)) else { return Ok(None) };
        if checked == pool {
            if !reason.is_empty() {
                out.extend_from_slice(b",\"check_failed\":");
                push_string(out, reason);
            }
            break;
        }
    }
    Ok(Some(()))
}

/// What an event says of one member.
struct Member<'a, 'py> {
    name: &'a str,
    score: Option<i64>,
    shadow_score: Option<i64>,
    age: f64,
    interval: f64,
    metrics: Bound<'py, PyDict>,
    alarm: &'a str,
    gone: bool,
    failure: &'a str,
}

/// Reads the changes of members.
#[pyclass]
pub struct ChangesReader {
    reading: Py<PyType>,
    failed_check: Py<PyType>,
    names: Vec<(Box<str>, Py<PyString>)>, // of the metrics in the last reading: most readings have the same ones
}

#[pymethods]
impl ChangesReader {
    /// `reading` and `failed_check` are the classes `Reading` and `FailedCheck`.
    #[new]
    fn new(reading: Bound<'_, PyType>, failed_check: Bound<'_, PyType>) -> ChangesReader {
        ChangesReader { reading: reading.unbind(), failed_check: failed_check.unbind(), names: Vec::new() }
    }

    /// Return the readings in `data` by full name, or None if Python must read it. `now` is in monotonic seconds.
    fn read<'py>(&mut self, py: Python<'py>, data: &[u8], now: f64) -> PyResult<Option<Bound<'py, PyDict>>> {
        let found = PyDict::new(py);
        let mut text = JsonText(data);
        if text.literal(b"{\"pools\":[").is_none() {
            return Ok(None);
        }
        loop {
            if self.read_pool(&mut text, &found, now)?.is_none() {
                return Ok(None);
            }
            if text.literal(b",").is_none() {
                break;
            }
        }
        let is_whole = text.literal(b"]}").is_some() && text.0.is_empty();
        Ok(is_whole.then_some(found))
    }
}

impl ChangesReader {
    fn read_pool(&mut self, text: &mut JsonText<'_>, found: &Bound<'_, PyDict>, now: f64) -> PyResult<Option<()>> {
        let Some((pool, zone)) = read_pool_head(text) else { return Ok(None) };
        loop {
            let Some(member) = self.read_member(found.py(), text)? else { return Ok(None) };
            self.store(&member, pool, zone, found, now)?;
            if text.literal(b",").is_none() {
                break;
            }
        }
        Ok(text.literal(b"]}"))
    }

    fn read_member<'a, 'py>(&mut self, py: Python<'py>, text: &mut JsonText<'a>) -> PyResult<Option<Member<'a, 'py>>> {
        let metrics = PyDict::new(py);
        let Some((name, score, shadow_score, age, interval)) = read_member_head(text) else { return Ok(None) };
        let mut count = 0;
        while text.0.first() != Some(&b'}') {
            if count > 0 && text.literal(b",").is_none() {
                return Ok(None);
            }
            let Some((name, value)) = read_metric(text) else { return Ok(None) };
            metrics.set_item(self.metric_name(py, count, name), value)?;
            count += 1;
            if count > MAX_METRICS {
                return Ok(None);
            }
        }
        if metrics.len() != count {
            return Ok(None); // a metric occurs twice
        }
        let Some((alarm, gone, failure)) = read_member_end(text) else { return Ok(None) };
        Ok(Some(Member { name, score, shadow_score, age, interval, metrics, alarm, gone, failure }))
    }

    fn metric_name<'py>(&mut self, py: Python<'py>, place: usize, name: &str) -> &Bound<'py, PyString> {
        match self.names.get(place) {
            Some((known, _)) if **known == *name => {}
            Some(_) => self.names[place] = (name.into(), metric_name(py, name)),
            None => self.names.push((name.into(), metric_name(py, name))),
        }
        self.names[place].1.bind(py)
    }

    fn store(
        &self,
        member: &Member<'_, '_>,
        pool: &str,
        zone: &str,
        found: &Bound<'_, PyDict>,
        now: f64,
    ) -> PyResult<()> {
        let py = found.py();
        let full_name = if zone.is_empty() { member.name.to_owned() } else { [member.name, zone].join(".") };
        let mut failed = match found.get_item(&full_name)? {
            Some(other) => other.getattr(intern!(py, "failed_checks"))?.extract()?, // of another pool
            None => Vec::new(),
        };
        if !member.failure.is_empty() {
            failed.push(self.failed_check.call1(py, (pool, member.failure))?.into_bound(py));
        }
        let fields = (
            now - if member.age > 0.0 { member.age } else { 0.0 },
            member.interval,
            member.score,
            &member.metrics,
            member.alarm,
            member.gone,
            member.shadow_score,
            PyTuple::new(py, failed)?,
        );
        found.set_item(full_name, self.reading.call1(py, fields)?)
    }
}

/// Read the name and the zone of a pool.
fn read_pool_head<'a>(text: &mut JsonText<'a>) -> Option<(&'a str, &'a str)> {
    text.literal(b"{\"name\":")?;
    let pool = text.string()?;
    text.literal(b",\"zone\":")?;
    let zone = text.string()?;
    text.literal(b",\"members\":[")?;
    Some((pool, zone))
}

/// Read the part of a member before its metrics: the name, the scores, the age and the interval.
fn read_member_head<'a>(text: &mut JsonText<'a>) -> Option<(&'a str, Option<i64>, Option<i64>, f64, f64)> {
    text.literal(b"{\"name\":")?;
    let name = text.string()?;
    text.literal(b",\"score\":")?;
    let score = if text.literal(b"null").is_some() { None } else { Some(text.integer()?) };
    let shadow_score = match text.literal(b",\"shadow_score\":") {
        Some(()) => Some(text.integer()?),
        None => None,
    };
    text.literal(b",\"age_s\":")?;
    let age = text.number()?;
    text.literal(b",\"interval_s\":")?;
    let interval = text.number()?;
    text.literal(b",\"metrics\":{")?;
    (interval > 0.0).then_some((name, score, shadow_score, age, interval))
}

fn read_metric<'a>(text: &mut JsonText<'a>) -> Option<(&'a str, f64)> {
    let name = text.string()?;
    text.literal(b":")?;
    Some((name, text.number()?))
}

/// Read the part of a member after its metrics: the alarm, whether it is gone, and why its check fails.
fn read_member_end<'a>(text: &mut JsonText<'a>) -> Option<(&'a str, bool, &'a str)> {
    text.literal(b"},\"alarm\":")?;
    let alarm = text.string()?;
    text.literal(b",\"gone\":")?;
    let gone = text.literal(b"true").is_some();
    if !gone {
        text.literal(b"false")?;
    }
    let failure = match text.literal(b",\"check_failed\":") {
        Some(()) => text.string()?,
        None => "",
    };
    text.literal(b"}")?;
    Some((alarm, gone, failure))
}

pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_changes, module)?)?;
    module.add_class::<ChangesReader>()
}
