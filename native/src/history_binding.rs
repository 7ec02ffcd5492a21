//! The Python functions for the history; they only convert types.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::history_columns;

/// Return the format and the bytes of a column that is stored exactly. `data` contains the values as float64.
#[pyfunction]
fn exact_column<'py>(py: Python<'py>, data: &[u8]) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
    let values: Vec<f64> =
        data.chunks_exact(8).filter_map(|bytes| Some(f64::from_ne_bytes(bytes.try_into().ok()?))).collect();
    let (format, column) = history_columns::exact_column(&values);
    (PyBytes::new(py, &[format]), PyBytes::new(py, &column))
}

/// Return a row for each of `names`, with the value in each of `metrics`, as float64 if `exact` says so, else as float32.
///
/// Returns None if one of `metrics` is neither a dictionary nor empty.
#[pyfunction]
fn metric_rows<'py>(
    metrics: &Bound<'py, PyList>,
    names: Vec<(Bound<'py, PyString>, bool)>,
) -> PyResult<Option<Vec<Bound<'py, PyBytes>>>> {
    let none = PyDict::new(metrics.py());
    let mut rows: Vec<Vec<u8>> = names.iter().map(|_| Vec::with_capacity(8 * metrics.len())).collect();
    for values in metrics {
        let values = match values.downcast_exact::<PyDict>() {
            Ok(values) => values,
            Err(_) if values.is_empty()? => &none, // of a member without a valid reading
            Err(_) => return Ok(None),
        };
        for ((name, exact), row) in names.iter().zip(&mut rows) {
            let value: f64 = match values.get_item(name)? {
                Some(value) => value.extract()?,
                None => f64::NAN,
            };
            if *exact {
                row.extend_from_slice(&value.to_ne_bytes());
            } else {
                row.extend_from_slice(&(value as f32).to_ne_bytes());
            }
        }
    }
    Ok(Some(rows.iter().map(|row| PyBytes::new(metrics.py(), row)).collect()))
}

pub fn add_functions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(exact_column, module)?)?;
    module.add_function(wrap_pyfunction!(metric_rows, module)?)
}
