//! Opens, verifies and decodes report datagrams, version 1 (the format is described in `lbdns_shared/report.py`).
//!
//! Every function may return None for a datagram that the Python code accepts, but never the other way round: Python
//! then reads the datagram again, and decides.

use hmac::{Hmac, Mac};
use sha2::Sha256;

const MAGIC: &[u8] = b"LBR1";
pub const MAX_DATAGRAM: usize = 1200; // bytes
const KEY_ID: std::ops::Range<usize> = 4..8;
const HEADER: usize = 9; // bytes before the host name
const TAG: usize = 16; // bytes
const MAX_LABEL: usize = 63; // bytes
const MAX_INTERVAL: f64 = 86_400.0; // s
const MAX_ADDRESSES: usize = 8;
const MAX_METRICS: usize = 256;
const KINDS: [&str; 3] = ["data", "alarm", "bye"];

/// The key with which one host signs its reports, prepared for verification.
pub struct Key(Hmac<Sha256>);

impl Key {
    pub fn new(secret: &[u8]) -> Option<Key> {
        // The name Mac::new_from_slice exists in another trait too
        <Hmac<Sha256> as Mac>::new_from_slice(secret).ok().map(Key)
    }
}

/// A datagram that is split into its fields; they are not authenticated yet.
#[derive(Debug, PartialEq)]
pub struct Envelope<'a> {
    pub host: &'a str,
    pub key_id: &'a [u8],
    pub body: &'a [u8],
    signed: &'a [u8],
    tag: &'a [u8],
}

impl<'a> Envelope<'a> {
    pub fn open(datagram: &'a [u8]) -> Option<Envelope<'a>> {
        if datagram.len() > MAX_DATAGRAM || datagram.len() < HEADER + TAG || !datagram.starts_with(MAGIC) {
            return None;
        }
        let (signed, tag) = datagram.split_at(datagram.len() - TAG);
        let (host, body) = signed[HEADER..].split_at_checked(usize::from(datagram[HEADER - 1]))?;
        if body.is_empty() || !is_host_name(host) {
            return None;
        }
        Some(Envelope { host: std::str::from_utf8(host).ok()?, key_id: &datagram[KEY_ID], body, signed, tag })
    }

    /// Return whether the tag was made with `key`. The comparison takes constant time.
    pub fn is_signed(&self, key: &Key) -> bool {
        key.0.clone().chain_update(self.signed).verify_truncated_left(self.tag).is_ok()
    }
}

fn is_host_name(name: &[u8]) -> bool {
    name.split(|&byte| byte == b'.').all(|label| {
        let is_allowed = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        !label.is_empty() && label.len() <= MAX_LABEL && label[0] != b'-' && label.iter().all(is_allowed)
    })
}

/// The body of a report.
#[derive(Debug, PartialEq)]
pub struct Body<'a> {
    pub boot: u64,
    pub seq: u64,
    pub time: f64,
    pub interval: f64,
    pub metrics: Vec<(&'a str, f64)>, // a later item replaces an earlier one with the same name
    pub kind: &'a str,
    pub alarm: &'a str,
    pub pool: &'a str,
    pub addresses: Vec<&'a str>,
}

impl<'a> Body<'a> {
    /// Decode a body that has each key at most once, and no unknown key.
    pub fn decode(body: &'a [u8]) -> Option<Body<'a>> {
        let mut rest = Msgpack(body);
        let (mut boot, mut seq, mut time, mut interval) = (None, None, None, None);
        let (mut metrics, mut kind, mut alarm, mut pool, mut addresses) = (None, None, None, None, None);
        for _ in 0..rest.map()? {
            match rest.text()? {
                "boot" => once(&mut boot, rest.unsigned()?)?,
                "seq" => once(&mut seq, rest.unsigned()?)?,
                "time" => once(&mut time, rest.number()?)?,
                "interval" => once(&mut interval, rest.number()?)?,
                "metrics" => once(&mut metrics, rest.metrics()?)?,
                "kind" => once(&mut kind, rest.text()?)?,
                "alarm" => once(&mut alarm, rest.text()?)?,
                "pool" => once(&mut pool, rest.text()?)?,
                "addresses" => once(&mut addresses, rest.addresses()?)?,
                _ => return None,
            }
        }
        let found = Body {
            boot: boot?,
            seq: seq?,
            time: time?,
            interval: interval?,
            metrics: metrics.unwrap_or_default(),
            kind: kind.unwrap_or(KINDS[0]),
            alarm: alarm.unwrap_or_default(),
            pool: pool.unwrap_or_default(),
            addresses: addresses.unwrap_or_default(),
        };
        let is_valid = found.seq >= 1
            && found.interval > 0.0
            && found.interval <= MAX_INTERVAL
            && KINDS.contains(&found.kind)
            && rest.0.is_empty();
        is_valid.then_some(found)
    }
}

fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

/// The part of a msgpack message that has not been read. The methods return None for any other type than their own.
struct Msgpack<'a>(&'a [u8]);

impl<'a> Msgpack<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    /// Read a big-endian integer of 1 to 8 bytes.
    fn big_endian(&mut self, length: usize) -> Option<u64> {
        Some(self.take(length)?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    fn map(&mut self) -> Option<usize> {
        match self.byte()? {
            head @ 0x80..=0x8f => Some(usize::from(head & 0x0f)),
            0xde => self.big_endian(2).map(|length| length as usize),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = match self.byte()? {
            head @ 0xa0..=0xbf => usize::from(head & 0x1f),
            0xd9 => self.big_endian(1)? as usize,
            0xda => self.big_endian(2)? as usize,
            _ => return None,
        };
        std::str::from_utf8(self.take(length)?).ok()
    }

    fn unsigned(&mut self) -> Option<u64> {
        match self.byte()? {
            head @ 0x00..=0x7f => Some(u64::from(head)),
            head @ 0xcc..=0xcf => self.big_endian(1 << (head - 0xcc)),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<f64> {
        let found = match *self.0.first()? {
            0xca => {
                self.byte();
                f64::from(f32::from_bits(self.big_endian(4)? as u32))
            }
            0xcb => {
                self.byte();
                f64::from_bits(self.big_endian(8)?)
            }
            head @ 0xe0..=0xff => {
                self.byte();
                f64::from(head as i8)
            }
            head @ 0xd0..=0xd3 => {
                self.byte();
                let length = 1 << (head - 0xd0);
                let shift = 64 - 8 * length as u32;
                (((self.big_endian(length)? << shift) as i64) >> shift) as f64 // extends the sign
            }
            _ => self.unsigned()? as f64,
        };
        found.is_finite().then_some(found)
    }

    fn metrics(&mut self) -> Option<Vec<(&'a str, f64)>> {
        let length = self.map()?;
        if length > MAX_METRICS {
            return None;
        }
        (0..length).map(|_| Some((self.text()?, self.number()?))).collect()
    }

    fn addresses(&mut self) -> Option<Vec<&'a str>> {
        let length = match self.byte()? {
            head @ 0x90..=0x9f => usize::from(head & 0x0f),
            _ => return None,
        };
        if length > MAX_ADDRESSES {
            return None;
        }
        (0..length).map(|_| self.text()).collect()
    }
}
