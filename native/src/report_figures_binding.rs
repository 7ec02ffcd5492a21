//! The Python classes for what is computed from a report's metrics, which only convert types.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::report_figures::{self, Derived, Line, Measured};

type TermLine<'py> = (Bound<'py, PyString>, f64, f64, f64, f64, f64);

/// A score: a weighted sum of metrics.
#[pyclass(frozen)]
pub struct ReportScore {
    lines: Vec<(Box<str>, Py<PyString>, Line)>,
    total: f64,
}

#[pymethods]
impl ReportScore {
    /// `lines` has an item for each term: metric, weight, slope, zero crossing, end point, and value beyond the end.
    #[new]
    fn new(lines: Vec<TermLine<'_>>, total: f64) -> ReportScore {
        let lines = lines
            .into_iter()
            .map(|(metric, weight, slope, zero, end, beyond)| {
                (metric.to_string().into(), metric.unbind(), Line { weight, slope, zero, end, beyond })
            })
            .collect();
        ReportScore { lines, total }
    }

    /// Return the score of `metrics` as an integer.
    fn of(&self, metrics: &Bound<'_, PyDict>) -> PyResult<i64> {
        let mut terms = Vec::with_capacity(self.lines.len());
        for (_, metric, line) in &self.lines {
            if let Some(value) = metrics.get_item(metric)? {
                terms.push((*line, value.extract()?));
            }
        }
        Ok(report_figures::score(terms.into_iter(), self.total))
    }
}

impl ReportScore {
    /// Return the score of the metrics whose values `value` returns by name.
    pub fn of_values(&self, value: impl Fn(&str) -> Option<f64>) -> i64 {
        let terms = self.lines.iter().filter_map(|(name, _, line)| Some((*line, value(name)?)));
        report_figures::score(terms, self.total)
    }
}

/// The estimated capacity of one host.
#[pyclass]
#[derive(Default)]
pub struct HostCapacity(report_figures::HostCapacity);

#[pymethods]
impl HostCapacity {
    #[new]
    fn new() -> HostCapacity {
        HostCapacity::default()
    }

    /// Record the metrics of a report, and set the derived metrics in `metrics`.
    ///
    /// `interval` is in seconds, and `now` in monotonic seconds.
    fn derive(&mut self, metrics: &Bound<'_, PyDict>, interval: f64, now: f64) -> PyResult<()> {
        let measured = measured(metrics)?;
        let derived = self.derive_values(&measured, interval, now);
        let py = metrics.py();
        let found = [
            (intern!(py, "run_queue_per_core"), derived.run_queue_per_core),
            (intern!(py, "idle_worker_share"), derived.idle_worker_share),
            (intern!(py, "capacity_used"), derived.capacity_used),
        ];
        for (name, _) in &found {
            if metrics.contains(name)? {
                metrics.del_item(name)?;
            }
        }
        for (name, value) in found {
            if let Some(value) = value {
                metrics.set_item(name, value)?;
            }
        }
        Ok(())
    }
}

impl HostCapacity {
    /// Record what a report has measured, and return the derived metrics.
    pub fn derive_values(&mut self, measured: &Measured, interval: f64, now: f64) -> Derived {
        let capacity = self.0.observe(measured, interval, now);
        Derived::of(measured, capacity, interval)
    }
}

/// Read the metrics that the figures are computed from.
pub fn measured(metrics: &Bound<'_, PyDict>) -> PyResult<Measured> {
    let py = metrics.py();
    let get = |name: &Bound<'_, PyString>| -> PyResult<Option<f64>> {
        metrics.get_item(name)?.map(|value| value.extract()).transpose()
    };
    Ok(Measured {
        cpu_count: get(intern!(py, "cpu_count"))?,
        cpu_idle: get(intern!(py, "cpu_idle"))?,
        cpu_steal: get(intern!(py, "cpu_steal"))?,
        httpd_cpu_seconds: get(intern!(py, "httpd_cpu_seconds"))?,
        requests_total: get(intern!(py, "requests_total"))?,
        requests_per_s: get(intern!(py, "requests_per_s"))?,
        run_queue: get(intern!(py, "run_queue"))?,
        busy_workers: get(intern!(py, "busy_workers"))?,
        idle_workers: get(intern!(py, "idle_workers"))?,
    })
}
