//! JSON as Python's `json` module writes it, byte for byte, and a reader for the same subset.

use std::fmt::Write;

const MAX_PLAIN: f64 = 1e12; // integers and thousandths below it have at most 15 digits
const MAX_EXACT: u64 = 1 << 53; // integers up to it are exact as f64
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Append an integer.
pub fn push_integer(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0; 20];
    let (mut rest, mut at) = (value.unsigned_abs(), digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Append a number as `repr` writes it. Returns None, and appends nothing, if it is not finite.
pub fn push_float(out: &mut Vec<u8>, value: f64) -> Option<()> {
    if !value.is_finite() {
        return None;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let size = value.abs();
    if size < MAX_PLAIN {
        // Two decimals of at most 15 digits are never the same f64, so this one is the shortest
        let thousandths = (size * 1000.0).round();
        if thousandths / 1000.0 == size {
            push_thousandths(out, thousandths as u64);
            return Some(());
        }
    }
    push_shortest(out, size);
    Some(())
}

/// Append `round(value, 3)`. Returns None, and appends nothing, if it is not finite or very large.
pub fn push_rounded(out: &mut Vec<u8>, value: f64) -> Option<()> {
    let mut text = ShortText::default();
    write!(text, "{value:.3}").ok()?;
    push_float(out, std::str::from_utf8(text.bytes()).ok()?.parse().ok()?)
}

/// A buffer for the text of a number, without an allocation.
#[derive(Default)]
struct ShortText {
    buffer: [u8; 32],
    length: usize,
}

impl ShortText {
    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.length]
    }
}

impl Write for ShortText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        self.buffer.get_mut(self.length..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

fn push_thousandths(out: &mut Vec<u8>, thousandths: u64) {
    push_integer(out, (thousandths / 1000) as i64);
    let rest = thousandths % 1000;
    let digits = [b'0' + (rest / 100) as u8, b'0' + (rest / 10 % 10) as u8, b'0' + (rest % 10) as u8];
    let length = 1 + digits.iter().rposition(|&digit| digit != b'0').unwrap_or(0);
    out.push(b'.');
    out.extend_from_slice(&digits[..length]);
}

/// Append a positive number with the fewest digits that identify it.
fn push_shortest(out: &mut Vec<u8>, value: f64) {
    let mut text = ShortText::default();
    let _ = write!(text, "{value:e}"); // at most 24 bytes: 17 digits, a point and an exponent
    let text = text.bytes_mut();
    let end = text.iter().position(|&byte| byte == b'e').unwrap_or(text.len());
    let exponent: i32 = text.get(end + 1..).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or(0);
    let digits = if end > 1 {
        text[1] = text[0]; // in place of the point
        &text[1..end]
    } else {
        &text[..end]
    };
    let zeros = |count: i32| std::iter::repeat_n(b'0', count.max(0) as usize);
    if !(-4..16).contains(&exponent) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(zeros(-exponent - 1));
        out.extend_from_slice(digits);
    } else {
        let whole = exponent as usize + 1;
        out.extend_from_slice(&digits[..whole.min(digits.len())]);
        out.extend(zeros(whole as i32 - digits.len() as i32));
        out.push(b'.');
        out.extend_from_slice(digits.get(whole..).filter(|rest| !rest.is_empty()).unwrap_or(b"0"));
    }
}

/// Append a string in quotes, with all characters but printable ASCII escaped.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        out.extend_from_slice(text.as_bytes());
    } else {
        push_escaped(out, text);
    }
    out.push(b'"');
}

fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let mut escaped = String::new();
    for unit in text.encode_utf16() {
        let short = match unit {
            0x08 => "\\b",
            0x09 => "\\t",
            0x0a => "\\n",
            0x0c => "\\f",
            0x0d => "\\r",
            0x22 => "\\\"",
            0x5c => "\\\\",
            _ => "",
        };
        if !short.is_empty() {
            escaped.push_str(short);
        } else if matches!(unit, 0x20..=0x7e) {
            escaped.push(unit as u8 as char);
        } else {
            let _ = write!(escaped, "\\u{unit:04x}"); // writing to a string never fails
        }
    }
    out.extend_from_slice(escaped.as_bytes());
}

/// The part of a JSON text that has not been read. The methods return None for everything that they do not read.
pub struct JsonText<'a>(pub &'a [u8]);

impl<'a> JsonText<'a> {
    /// Read `expected`, or return None and read nothing.
    pub fn literal(&mut self, expected: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    /// Read a string without escapes.
    pub fn string(&mut self) -> Option<&'a str> {
        let text = self.0.strip_prefix(b"\"")?;
        let end = text.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20)?;
        self.0 = text[end..].strip_prefix(b"\"")?;
        std::str::from_utf8(&text[..end]).ok()
    }

    /// Read an integer that fits into 64 bits.
    pub fn integer(&mut self) -> Option<i64> {
        let (token, is_integer) = self.token()?;
        is_integer.then(|| token.parse().ok())?
    }

    /// Read a finite number. An integer must fit into 64 bits.
    pub fn number(&mut self) -> Option<f64> {
        let before = self.0;
        let (token, is_integer) = self.token()?;
        if is_integer {
            self.0 = before;
            return self.integer().map(|value| value as f64);
        }
        let value = decimal(token).or_else(|| token.parse().ok())?;
        value.is_finite().then_some(value)
    }

    /// Read a number's text, and whether it is an integer.
    fn token(&mut self) -> Option<(&'a str, bool)> {
        let text = self.0;
        let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let start = usize::from(text.first() == Some(&b'-'));
        let whole = digits(start);
        if whole == 0 || (whole > 1 && text[start] == b'0') {
            return None;
        }
        let mut end = start + whole;
        let mut is_integer = true;
        if text.get(end) == Some(&b'.') {
            let fraction = digits(end + 1);
            end += 1 + fraction;
            is_integer = false;
            if fraction == 0 {
                return None;
            }
        }
        if matches!(text.get(end), Some(b'e' | b'E')) {
            end += 1 + usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end);
            end += exponent;
            is_integer = false;
            if exponent == 0 {
                return None;
            }
        }
        self.0 = &text[end..];
        Some((std::str::from_utf8(&text[..end]).ok()?, is_integer))
    }
}

/// Return the value of a number with few digits and without an exponent. The quotient of two exact numbers is rounded
/// once, and therefore correct.
fn decimal(token: &str) -> Option<f64> {
    let (sign, token) = token.strip_prefix('-').map_or((1.0, token), |rest| (-1.0, rest));
    let (whole, fraction) = token.split_once('.')?;
    if whole.len() + fraction.len() > 16 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = whole.bytes().chain(fraction.bytes());
    let value = digits.fold(0u64, |value, digit| 10 * value + u64::from(digit - b'0'));
    (value <= MAX_EXACT).then(|| sign * (value as f64 / POWERS[fraction.len()]))
}
