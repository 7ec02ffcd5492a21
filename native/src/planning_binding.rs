//! The Python functions for the arithmetic of planning, which only convert types.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::planning_arithmetic::{self, Adding, SearchLimits, Speeds};

fn adding(py: Python<'_>) -> Adding {
    if py.version_info() >= (3, 12) {
        Adding::Compensated
    } else {
        Adding::Plain
    }
}

/// Require columns of equal length. Raises ValueError.
fn require_equal(lengths: &[usize]) -> PyResult<()> {
    if lengths.iter().all(|length| *length == lengths[0]) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("the columns must have the same length, not {lengths:?}")))
}

/// Return each member's ideal requests/s, and the resulting requests in progress.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn operating_point(
    py: Python<'_>,
    capacities: Vec<f64>,
    cores: Vec<f64>,
    rate: f64,
    in_progress: f64,
    max_utilisation: f64,
    accuracy: f64,
    steps: u32,
) -> PyResult<(Vec<f64>, Vec<f64>)> {
    require_equal(&[capacities.len(), cores.len()])?;
    if !capacities.iter().all(|capacity| *capacity > 0.0) {
        return Err(PyValueError::new_err("every capacity must be above 0"));
    }
    let limits = SearchLimits { max_utilisation, accuracy, steps };
    Ok(planning_arithmetic::operating_point(&capacities, &cores, rate, in_progress, &limits, adding(py)))
}

/// Return the relative variance of the members' true speeds.
#[pyfunction]
fn variance_between(
    py: Python<'_>,
    speeds: Vec<f64>,
    variances: Vec<f64>,
    inner: Vec<f64>,
    steps: u32,
) -> PyResult<f64> {
    require_equal(&[speeds.len(), variances.len(), inner.len()])?;
    let speeds = Speeds { speeds: &speeds, variances: &variances, inner: &inner, adding: adding(py) };
    Ok(speeds.variance_between(steps))
}

/// Split `amount` into parts, each within its limit, that bring all members to the same level.
#[pyfunction]
fn fill_to_level(
    py: Python<'_>,
    loads: Vec<f64>,
    widths: Vec<f64>,
    limits: Vec<f64>,
    amount: f64,
) -> PyResult<Vec<f64>> {
    require_equal(&[loads.len(), widths.len(), limits.len()])?;
    Ok(planning_arithmetic::fill_to_level(&loads, &widths, &limits, amount, adding(py)))
}

/// Return the first `length` selections of members with the given shares and credits.
#[pyfunction]
fn smooth_order(weights: Vec<f64>, credits: Vec<f64>, length: usize) -> PyResult<Vec<usize>> {
    require_equal(&[weights.len(), credits.len()])?;
    Ok(planning_arithmetic::smooth_order(&weights, &credits, length))
}

pub fn add_functions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(operating_point, module)?)?;
    module.add_function(wrap_pyfunction!(variance_between, module)?)?;
    module.add_function(wrap_pyfunction!(fill_to_level, module)?)?;
    module.add_function(wrap_pyfunction!(smooth_order, module)?)
}
