//! The Python functions for the arithmetic of planning, which only convert types.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::capacity_estimate::{self, EstimateLimits, ServedWork};
use crate::level_filling::{self as levels, FillingLimits};
use crate::planning_arithmetic::{self, Adding, Contention, SearchLimits, Speeds};

/// A column of numbers. Lists and tuples are read item by item, which is faster than by an iterator.
pub struct Column(pub Vec<f64>);

impl<'py> FromPyObject<'py> for Column {
    fn extract_bound(value: &Bound<'py, PyAny>) -> PyResult<Column> {
        if let Ok(list) = value.downcast::<PyList>() {
            return Ok(Column(list.iter().map(|item| item.extract()).collect::<PyResult<_>>()?));
        }
        if let Ok(tuple) = value.downcast::<PyTuple>() {
            return Ok(Column(tuple.iter_borrowed().map(|item| item.extract()).collect::<PyResult<_>>()?));
        }
        Ok(Column(value.extract()?))
    }
}

/// A column of booleans, read like a `Column`.
pub struct Flags(pub Vec<bool>);

impl<'py> FromPyObject<'py> for Flags {
    fn extract_bound(value: &Bound<'py, PyAny>) -> PyResult<Flags> {
        if let Ok(list) = value.downcast::<PyList>() {
            return Ok(Flags(list.iter().map(|item| item.extract()).collect::<PyResult<_>>()?));
        }
        Ok(Flags(value.extract()?))
    }
}

pub fn adding(py: Python<'_>) -> Adding {
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

/// The limits of the search for the operating point, in the order of `SEARCH_LIMITS`.
type Limits = (f64, f64, u32, f64, usize, usize, (f64, f64));

/// Raises ValueError if a sample would have no members.
fn search_limits(limits: Limits) -> PyResult<SearchLimits> {
    let (max_utilisation, accuracy, steps, narrowest, sample, stride, around) = limits;
    if sample == 0 {
        return Err(PyValueError::new_err("a sample must have members"));
    }
    Ok(SearchLimits { max_utilisation, accuracy, steps, narrowest, sample, stride, around })
}

/// Require values of members that exist. Raises ValueError.
fn require_members(values: &[(usize, f64)], size: usize) -> PyResult<()> {
    if values.iter().all(|(member, _)| *member < size) {
        return Ok(());
    }
    Err(PyValueError::new_err("each value must belong to a member"))
}

/// The runnable tasks on the hosts of some members, and the s for which their requests wait during standstills.
type OtherWork = (Vec<(usize, f64)>, Vec<(usize, f64)>);

/// Raises ValueError if a value belongs to no member.
fn contention_of((other_tasks, standstills): OtherWork, size: usize) -> PyResult<Contention> {
    require_members(&other_tasks, size)?;
    require_members(&standstills, size)?;
    Ok(Contention { other_tasks, standstills })
}

/// Return each member's ideal requests/s, and the resulting requests in progress.
#[pyfunction]
fn operating_point(
    py: Python<'_>,
    capacities: Column,
    cores: Column,
    contention: OtherWork,
    rate: f64,
    in_progress: f64,
    search: Limits,
) -> PyResult<(Vec<f64>, Vec<f64>)> {
    let (Column(capacities), Column(cores)) = (capacities, cores);
    require_equal(&[capacities.len(), cores.len()])?;
    let contention = contention_of(contention, capacities.len())?;
    if !capacities.iter().all(|capacity| *capacity > 0.0) {
        return Err(PyValueError::new_err("every capacity must be above 0"));
    }
    let (limits, adding) = (search_limits(search)?, adding(py));
    Ok(planning_arithmetic::operating_point(&capacities, &cores, &contention, rate, in_progress, &limits, adding))
}

/// Return the relative variance of the members' true speeds.
#[pyfunction]
fn variance_between(py: Python<'_>, speeds: Column, variances: Column, inner: Column, steps: u32) -> PyResult<f64> {
    let (Column(speeds), Column(variances), Column(inner)) = (speeds, variances, inner);
    require_equal(&[speeds.len(), variances.len(), inner.len()])?;
    let speeds = Speeds { speeds: &speeds, variances: &variances, inner: &inner, adding: adding(py) };
    Ok(speeds.variance_between(steps))
}

/// Split `amount` into parts, each within its limit, that bring all members to the same level.
#[pyfunction]
fn fill_to_level(py: Python<'_>, loads: Column, widths: Column, limits: Column, amount: f64) -> PyResult<Vec<f64>> {
    let (Column(loads), Column(widths), Column(limits)) = (loads, widths, limits);
    require_equal(&[loads.len(), widths.len(), limits.len()])?;
    Ok(levels::fill_to_level(&loads, &widths, &limits, amount, adding(py)))
}

/// Return the first `length` selections of members with the given shares and credits.
#[pyfunction]
fn smooth_order(weights: Column, credits: Column, length: usize) -> PyResult<Vec<usize>> {
    let (Column(weights), Column(credits)) = (weights, credits);
    require_equal(&[weights.len(), credits.len()])?;
    Ok(planning_arithmetic::smooth_order(&weights, &credits, length))
}

/// Return each member's capacity in requests/s. `limits` contains the constants of the estimate.
#[pyfunction]
fn capacities(
    py: Python<'_>,
    requests: Column,
    cpu_seconds: Column,
    variances: Column,
    counted: Flags,
    cores: Column,
    gain: f64,
    limits: (f64, f64, f64, f64, u32),
) -> PyResult<Vec<f64>> {
    let size = requests.0.len();
    require_equal(&[size, cpu_seconds.0.len(), variances.0.len(), counted.0.len(), cores.0.len()])?;
    let (prior, max_speed, min_variance, most_faster, steps) = limits;
    let work =
        ServedWork { requests: &requests.0, cpu_seconds: &cpu_seconds.0, variances: &variances.0, counted: &counted.0 };
    let limits = EstimateLimits { prior, max_speed, min_variance, most_faster, steps };
    Ok(work.capacities(&cores.0, gain, &limits, adding(py)))
}

/// Return each member's capacity, but limit the fastest member's speed to that of the next fastest member.
#[pyfunction]
fn proven_capacities(capacity: Column, cores: Column, counted: Flags) -> PyResult<Vec<f64>> {
    require_equal(&[capacity.0.len(), cores.0.len(), counted.0.len()])?;
    Ok(capacity_estimate::proven_capacities(&capacity.0, &cores.0, &counted.0))
}

/// Return the shares that bring all members to the same level above their operating points.
///
/// `search` contains the limits of the search for the operating point, and `filling` those of level filling.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn level_filling(
    py: Python<'_>,
    loads: Column,
    capacities: Column,
    cores: Column,
    contention: OtherWork,
    rate: f64,
    in_progress: f64,
    most: Vec<(usize, f64)>,
    search: Limits,
    filling: (f64, f64, f64, Option<f64>),
) -> PyResult<Vec<f64>> {
    let size = loads.0.len();
    require_equal(&[size, capacities.0.len(), cores.0.len()])?;
    if !capacities.0.iter().all(|capacity| *capacity > 0.0) {
        return Err(PyValueError::new_err("every capacity must be above 0"));
    }
    require_members(&most, size)?;
    let contention = contention_of(contention, size)?;
    let search = search_limits(search)?;
    let (expected, min_share, min_utilisation, half_corrected) = filling;
    let limits = FillingLimits { expected, min_share, min_utilisation, half_corrected, most };
    let adding = adding(py);
    let (capacities, cores) = (&capacities.0, &cores.0);
    let point =
        planning_arithmetic::operating_point(capacities, cores, &contention, rate, in_progress, &search, adding);
    Ok(levels::level_filling(&loads.0, capacities, point, rate, &limits, adding))
}

/// Return each rate, at most `margin` times the capacity; None for a rate that is None.
#[pyfunction]
fn limited_rates<'py>(rates: &Bound<'py, PyList>, capacities: Column, margin: f64) -> PyResult<Bound<'py, PyList>> {
    let Column(capacities) = capacities;
    require_equal(&[rates.len(), capacities.len()])?;
    let limited = rates.get_slice(0, rates.len());
    for (i, (rate, capacity)) in rates.iter().zip(capacities).enumerate() {
        let most = margin * capacity;
        if rate.extract::<Option<f64>>()?.is_some_and(|rate| rate > most) {
            limited.set_item(i, most)?;
        }
    }
    Ok(limited)
}

/// Return whether an item of a list is None.
#[pyfunction]
fn has_none(column: &Bound<'_, PyList>) -> bool {
    column.iter().any(|item| item.is_none())
}

/// Return the median of at least one number: the mean of the middle two if their number is even.
#[pyfunction]
fn median(values: Column) -> PyResult<f64> {
    let Column(mut values) = values;
    if values.is_empty() {
        return Err(PyValueError::new_err("a median needs at least one value"));
    }
    Ok(planning_arithmetic::median(&mut values))
}

/// Return each member's credit after a plan with these shares and credits, from -1 to 1.
#[pyfunction]
fn carried_credits<'py>(
    py: Python<'py>,
    credits: Column,
    weights: Column,
    counts: Column,
    total: f64,
) -> PyResult<Bound<'py, PyTuple>> {
    require_equal(&[credits.0.len(), weights.0.len(), counts.0.len()])?;
    PyTuple::new(py, planning_arithmetic::carried_credits(&credits.0, &weights.0, &counts.0, total))
}

pub fn add_functions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(operating_point, module)?)?;
    module.add_function(wrap_pyfunction!(variance_between, module)?)?;
    module.add_function(wrap_pyfunction!(fill_to_level, module)?)?;
    module.add_function(wrap_pyfunction!(has_none, module)?)?;
    module.add_function(wrap_pyfunction!(limited_rates, module)?)?;
    module.add_function(wrap_pyfunction!(median, module)?)?;
    module.add_function(wrap_pyfunction!(capacities, module)?)?;
    module.add_function(wrap_pyfunction!(proven_capacities, module)?)?;
    module.add_function(wrap_pyfunction!(level_filling, module)?)?;
    module.add_function(wrap_pyfunction!(carried_credits, module)?)?;
    module.add_function(wrap_pyfunction!(smooth_order, module)?)
}
