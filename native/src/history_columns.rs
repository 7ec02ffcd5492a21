//! The columns of the history that are stored exactly, before they are compressed.
//!
//! `_encode_exact` in `lbdns/history/column_codec.py` returns the same bytes, and explains the formats.

const LARGEST_STEP: f64 = (1u64 << 61) as f64;
const NONE: i64 = -(1 << 62); // represents a missing value
const MILLION: f64 = 1e6;

/// Return the format of a column, and its bytes: the first bytes of all values, then the second bytes, and so on.
pub fn exact_column(values: &[f64]) -> (u8, Vec<u8>) {
    let known = || values.iter().copied().filter(|value| !value.is_nan());
    let largest = known().fold(0.0, |largest: f64, value| if value.abs() > largest { value.abs() } else { largest });
    if largest < LARGEST_STEP && known().all(|value| value.trunc() == value) {
        (b'w', steps(values, 1.0))
    } else if largest * MILLION < LARGEST_STEP {
        (b'm', steps(values, MILLION))
    } else {
        (b'd', split(values.iter().map(|value| value.to_le_bytes()), values.len()))
    }
}

/// Return the differences between successive values, in multiples of 1/`unit`.
fn steps(values: &[f64], unit: f64) -> Vec<u8> {
    let mut before = 0;
    let steps = values.iter().map(|value| {
        let number = if value.is_nan() { NONE } else { (value * unit).round_ties_even() as i64 };
        let step = number - before;
        before = number;
        step.to_le_bytes()
    });
    split(steps, values.len())
}

fn split(items: impl Iterator<Item = [u8; 8]>, count: usize) -> Vec<u8> {
    let mut found = vec![0; 8 * count];
    for (at, bytes) in items.enumerate() {
        for (place, byte) in bytes.into_iter().enumerate() {
            found[place * count + at] = byte;
        }
    }
    found
}
