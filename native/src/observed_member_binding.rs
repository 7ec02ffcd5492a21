//! The Python class of an observed member, which only converts types.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::capacity_estimate::robust_mean;
use crate::observed_member::{Observations, Report};
use crate::planning_binding::adding;
use crate::report_figures_binding::measured;

const MIN_CORES: f64 = 1e-3;
const MAX_CORES: f64 = 1e6;
const MAX_VALUE: f64 = 1e15;

/// The observations of one member over time.
#[pyclass]
pub struct ObservedMember {
    observations: Observations,
    plausible: Py<PyAny>,
    reported: Option<Py<PyAny>>, // the metrics of the newest reading as they were reported
    #[pyo3(get)]
    reading: Option<Py<PyAny>>,
    #[pyo3(get)]
    metrics: Py<PyAny>,
}

#[pymethods]
impl ObservedMember {
    /// `plausible` returns metrics without impossible values, and `none` are the metrics before the first reading.
    #[new]
    fn new(plausible: Bound<'_, PyAny>, none: Bound<'_, PyAny>) -> ObservedMember {
        ObservedMember {
            observations: Observations::default(),
            plausible: plausible.unbind(),
            reported: None,
            reading: None,
            metrics: none.unbind(),
        }
    }

    /// Record a new reading.
    fn observe(&mut self, reading: Bound<'_, PyAny>) -> PyResult<()> {
        let py = reading.py();
        let received: f64 = reading.getattr(intern!(py, "received"))?.extract()?;
        let interval: f64 = reading.getattr(intern!(py, "interval"))?.extract()?;
        let reported = reading.getattr(intern!(py, "metrics"))?;
        let is_new = !self.reported.as_ref().is_some_and(|before| reported.is(before));
        let mut report = None;
        if is_new {
            let metrics = self.plausible_metrics(&reported)?;
            let found = read(&metrics)?;
            self.metrics = match self.observations.missing_busy_workers(&found, received) {
                Some(busy) => {
                    let more = PyDict::new(py);
                    more.update(metrics.downcast()?)?;
                    more.set_item(intern!(py, "busy_workers"), busy)?;
                    more.into_any().unbind()
                }
                None => metrics.unbind(),
            };
            report = Some(found);
        }
        self.observations.observe(received, interval, report);
        self.reported = Some(reported.unbind());
        self.reading = Some(reading.unbind());
        Ok(())
    }

    #[getter]
    fn interval(&self) -> f64 {
        self.observations.interval
    }

    #[getter]
    fn overdue_at(&self) -> f64 {
        self.observations.overdue_at
    }

    fn averages(&self) -> (Option<f64>, Option<f64>, Option<f64>, Option<f64>) {
        self.observations.averages()
    }

    fn available_share(&self, cores: f64) -> f64 {
        self.observations.available_share(cores)
    }

    fn other_tasks(&self, cores: f64) -> f64 {
        self.observations.other_tasks(cores)
    }

    fn standstill(&self, cores: f64) -> f64 {
        self.observations.standstill(cores)
    }

    /// The cost of its requests: the object itself.
    #[getter]
    fn request_cost(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn served(&self) -> (f64, f64, f64, bool) {
        self.observations.served()
    }

    #[getter]
    fn recent_requests(&self) -> f64 {
        self.observations.recent_requests()
    }

    fn squared_spread(&self) -> Option<f64> {
        self.observations.squared_spread()
    }

    fn has_changed(&self, spread: f64) -> bool {
        self.observations.has_changed(spread)
    }

    fn forget(&mut self) {
        self.observations.forget();
    }
}

impl ObservedMember {
    /// Return `metrics` without impossible values: the same object if it has none.
    fn plausible_metrics<'py>(&self, metrics: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(dict) = metrics.downcast::<PyDict>() {
            let cores =
                dict.get_item(intern!(metrics.py(), "cpu_count"))?.map(|cores| cores.extract::<f64>()).transpose()?;
            let mut is_plausible = cores.is_none_or(|cores| (MIN_CORES..=MAX_CORES).contains(&cores));
            for (_, value) in dict {
                is_plausible &= (0.0..=MAX_VALUE).contains(&value.extract::<f64>()?);
            }
            if is_plausible {
                return Ok(metrics.clone());
            }
        }
        self.plausible.bind(metrics.py()).call1((metrics,))
    }
}

fn read(metrics: &Bound<'_, PyAny>) -> PyResult<Report> {
    let Ok(dict) = metrics.downcast::<PyDict>() else {
        let copy = PyDict::new(metrics.py());
        copy.update(metrics.downcast()?)?;
        return read(copy.as_any());
    };
    let waiting = dict.get_item(intern!(metrics.py(), "listen_queue"))?;
    let listen_queue = waiting.map(|value| value.extract()).transpose()?;
    Ok(Report { measured: measured(dict)?, listen_queue })
}

/// Discard the earlier observations of each member whose cost per request has changed by more than chance explains.
/// Return the indexes of these members, or None if an item of `costs` is no `ObservedMember`.
#[pyfunction]
fn forget_changed(costs: &Bound<'_, PyList>, least_spread: f64) -> Option<Vec<usize>> {
    let py = costs.py();
    let costs: Vec<Bound<'_, ObservedMember>> =
        costs.iter().map(|cost| cost.downcast_into().ok()).collect::<Option<_>>()?;
    if !costs.iter().any(|cost| cost.borrow().observations.recent_requests() > 0.0) {
        return Some(Vec::new());
    }
    let known: Vec<f64> = costs.iter().filter_map(|cost| cost.borrow().observations.squared_spread()).collect();
    let mut spread = least_spread;
    if !known.is_empty() {
        let mean = robust_mean(&known, &vec![1.0; known.len()], adding(py));
        spread = if mean > least_spread { mean } else { least_spread };
    }
    let has_changed = |i: &usize| costs[*i].borrow().observations.has_changed(spread);
    let changed: Vec<usize> = (0..costs.len()).filter(has_changed).collect();
    for i in &changed {
        costs[*i].borrow_mut().observations.forget();
    }
    Some(changed)
}

/// Return the index and the reading of each name in `names` whose item in `readings` is not the one in `old`.
#[pyfunction]
fn new_readings<'py>(
    names: &Bound<'py, PyTuple>,
    readings: &Bound<'py, PyDict>,
    old: &Bound<'py, PyList>,
) -> PyResult<Vec<(usize, Bound<'py, PyAny>)>> {
    let mut found = Vec::new();
    for (i, (name, old)) in names.iter_borrowed().zip(old.iter()).enumerate() {
        if let Some(reading) = readings.get_item(name)?.filter(|reading| !reading.is(&old)) {
            found.push((i, reading));
        }
    }
    Ok(found)
}

/// Columns of values by member: readings, metrics, received, scores, intervals, overdue_at, loads, cores,
/// requests_per_s and in_progress.
type Columns<'py> = [Bound<'py, PyList>; 10];

/// Columns of the work that members have served: requests, cpu_seconds, variances and counted.
type Work<'py> = [Bound<'py, PyList>; 4];

/// Record new readings, given with the indexes of their members, and copy the members' values to the columns.
///
/// Return whether a member has reported another number of cores. Raises TypeError if an item of `members` is no
/// `ObservedMember`.
#[pyfunction]
fn observe_members<'py>(
    members: &Bound<'py, PyList>,
    columns: Columns<'py>,
    work: Work<'py>,
    readings: Vec<(usize, Bound<'py, PyAny>)>,
) -> PyResult<bool> {
    let py = members.py();
    let [known, metrics, received, scores, intervals, overdue_at, averages @ ..] = &columns;
    let mut cores_changed = false;
    for (i, reading) in readings {
        let item = members.get_item(i)?;
        let mut member = item.downcast::<ObservedMember>()?.borrow_mut();
        member.observe(reading.clone())?;
        received.set_item(i, reading.getattr(intern!(py, "received"))?)?;
        scores.set_item(i, reading.getattr(intern!(py, "score"))?)?;
        known.set_item(i, reading)?;
        intervals.set_item(i, member.observations.interval)?;
        overdue_at.set_item(i, member.observations.overdue_at)?;
        let newest = member.metrics.bind(py);
        if newest.is(&metrics.get_item(i)?) {
            continue;
        }
        metrics.set_item(i, newest)?;
        let (load, cores, requests_per_s, in_progress) = member.averages();
        cores_changed |= averages[1].get_item(i)?.extract::<Option<f64>>()? != cores;
        for (column, value) in averages.iter().zip([load, cores, requests_per_s, in_progress]) {
            column.set_item(i, value)?;
        }
        let (requests, cpu_seconds, variance, counted) = member.served();
        for (column, value) in work.iter().zip([requests, cpu_seconds, variance]) {
            column.set_item(i, value)?;
        }
        work[3].set_item(i, counted)?;
    }
    Ok(cores_changed)
}

pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(forget_changed, module)?)?;
    module.add_function(wrap_pyfunction!(new_readings, module)?)?;
    module.add_function(wrap_pyfunction!(observe_members, module)?)?;
    module.add_class::<ObservedMember>()
}
