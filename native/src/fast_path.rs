//! The fast path for one query: looks up the question and shape, selects a member, and joins the precompiled bytes.
//!
//! `lbdns.answering.responder` has the same fast path in Python. All other queries are left for the slow path.

use std::net::IpAddr;

use crate::answer_table::{AnswerTable, Variant};
use crate::cookies::{ServerCookies, BOTH, CLIENT};
use crate::family_affinity::FamilyAffinity;
use crate::rate_limiter::RateLimiter;
use crate::retransmission_cache::RetransmissionCache;

const HEADER: usize = 12;
const MAX_QUESTION: usize = 259; // bytes: a name, type and class
const OPT: usize = 11; // bytes: an OPT record without options (RFC 6891 section 6.1.2)
const OPTIONS_LENGTH_AT: usize = 9; // bytes from the start of an OPT record to the length of its options
const COOKIE_AT: usize = 15; // bytes from the start of an OPT record to the data of its first option
const SUBNET: [u8; 2] = [0, 8]; // the code of the client subnet option (RFC 7871 section 6)
pub const MAX_RESPONSE: usize = 512; // bytes that every client accepts (RFC 1035 section 2.3.4)

/// The result of one query on the fast path.
pub enum Outcome {
    Response(usize), // the length of the response, in bytes
    Dropped,         // by the rate limit
    SlowPath,        // the slow path must answer
}

/// The option of a query on the fast path.
enum QueryOption {
    None,
    Cookie,
    Subnet,
}

/// The options of a response, which follow its precompiled tail without the last `cut` bytes.
#[derive(Clone, Copy)]
struct Options<'a> {
    cut: usize,
    written: &'a [u8],
}

/// The tables and clocks that all queries in one batch share.
pub struct Context<'a> {
    pub table: &'a mut AnswerTable,
    pub limiter: &'a mut RateLimiter,
    pub retransmissions: &'a mut RetransmissionCache,
    pub affinity: &'a mut FamilyAffinity,
    pub cookies: Option<&'a ServerCookies>,
    pub now: f64,  // monotonic seconds
    pub wall: u64, // Unix seconds
}

impl Context<'_> {
    /// Answer a query from `address` and `port`; the response, if there is one, is written to `out`.
    pub fn answer(&mut self, query: &[u8], address: IpAddr, port: u16, out: &mut [u8; MAX_RESPONSE]) -> Outcome {
        let Some(end) = question_end(query) else { return Outcome::SlowPath };
        let question = &query[HEADER..end];
        let mut lower = [0; MAX_QUESTION];
        let lower = &mut lower[..question.len()];
        lower.copy_from_slice(question);
        lower.make_ascii_lowercase();
        let Some(place) = self.table.place(lower) else { return Outcome::SlowPath };
        let rest = &query[end..];
        let Some((kind, option)) = self.kind(&query[2..HEADER], rest) else { return Outcome::SlowPath };
        if self.table.entry(place).kinds.get(kind).is_none_or(Vec::is_empty) {
            return Outcome::SlowPath;
        }
        let mut answered = ([0; BOTH], false);
        if let (QueryOption::Cookie, Some(cookies)) = (&option, self.cookies) {
            answered = cookies.answer(&rest[COOKIE_AT..], address, self.wall);
        }
        let known = answered.1;
        let options = match option {
            QueryOption::None => Options { cut: 0, written: &[] },
            QueryOption::Cookie => Options { cut: 0, written: &answered.0[..] },
            // In place of the length 0 of the options, at the end of a tail without options
            QueryOption::Subnet => Options { cut: 2, written: &rest[OPTIONS_LENGTH_AT..] },
        };
        if !known {
            let over = self.limiter.count(address, &self.table.entry(place).key);
            if over > 0 {
                if self.limiter.drops(over, address) {
                    return Outcome::Dropped;
                }
                return join(out, query, &self.table.truncated[kind], question, options);
            }
        }
        let (entry, mut cursor) = self.table.entry_and_cursor(place);
        let variants = &entry.kinds[kind];
        let member = match &mut cursor {
            None => 0,
            Some((number, cursor)) => {
                let mark = self.retransmissions.mark(address, port, query);
                match self.retransmissions.member(mark, self.now) {
                    // A member that has become unusable is not repeated, even for a retransmitted query
                    Some(member) if cursor.is_usable(member) => {
                        self.retransmissions.repeated += 1;
                        member
                    }
                    _ => {
                        let member = match entry.family {
                            Some(family) => self.affinity.give((address, port), *number, cursor, family, self.now),
                            None => cursor.take_next(),
                        };
                        self.retransmissions.note(mark, member, self.now);
                        member
                    }
                }
            }
        };
        entry.queries += 1;
        if let Some((_, cursor)) = cursor {
            if cursor.lists.is_some() {
                return join_list(out, query, variants, cursor.members(member), question, options);
            }
        }
        match variants.get(member as usize) {
            Some(variant) => join(out, query, variant, question, options),
            None => Outcome::SlowPath,
        }
    }

    /// Return the kind of response for a query with these bytes around its question (its shape), and which option it
    /// carries; None if the fast path has no answer for this shape.
    ///
    /// `head` is the header without the id; `rest` follows the question.
    fn kind(&self, head: &[u8], rest: &[u8]) -> Option<(usize, QueryOption)> {
        let mut around = [0; 10 + COOKIE_AT];
        around[..10].copy_from_slice(head);
        if rest.get(OPT..OPT + 2) == Some(&SUBNET) {
            if !has_only_subnet(rest) {
                return None;
            }
            let shape = &mut around[..10 + OPT]; // ends with the length 0 of no options
            shape[10..10 + OPTIONS_LENGTH_AT].copy_from_slice(&rest[..OPTIONS_LENGTH_AT]);
            return self.table.shapes.get(&*shape).map(|kind| (*kind, QueryOption::Subnet));
        }
        let has_cookie = rest.len() == COOKIE_AT + CLIENT || rest.len() == COOKIE_AT + BOTH;
        if has_cookie {
            self.cookies?;
            if usize::from(rest[COOKIE_AT - 1]) != rest.len() - COOKIE_AT {
                return None; // the option's length doesn't match the bytes that follow it
            }
            around[10..].copy_from_slice(&rest[..COOKIE_AT]);
            return self.table.cookie_shapes.get(&around[..]).map(|kind| (*kind, QueryOption::Cookie));
        }
        if rest.len() > OPT {
            return None;
        }
        around[10..10 + rest.len()].copy_from_slice(rest);
        self.table.shapes.get(&around[..10 + rest.len()]).map(|kind| (*kind, QueryOption::None))
    }
}

/// Return whether an OPT record at the end of a query has one option, a well-formed client subnet.
///
/// The checks are those of `lbdns.answering.edns.is_client_subnet`, except that an unknown family takes the slow path
/// even if no address follows. The first option must be a client subnet.
fn has_only_subnet(opt: &[u8]) -> bool {
    let (lengths, Some(data)) = (opt.get(OPTIONS_LENGTH_AT..), opt.get(COOKIE_AT..)) else { return false };
    let (Some(&[high, low, _, _, 0, length, ..]), Some(&[0, family, source, 0])) = (lengths, data.get(..4)) else {
        return false;
    };
    let longest = match family {
        0 => 0, // no address at all
        1 => 32,
        2 => 128,
        _ => return false,
    };
    let address = &data[4..];
    usize::from(length) == data.len()
        && [high, low] == [0, length.wrapping_add(4)]
        && source <= longest
        && address.len() == usize::from(source.div_ceil(8))
        && (source % 8 == 0 || address.last().is_none_or(|last| last & (0xff >> (source % 8)) == 0))
}

/// Return the offset of the first byte after the question, or None if the query is too short to contain one.
///
/// The first zero byte is taken as the end of the name. If it lies inside a label, the table has no such key.
fn question_end(query: &[u8]) -> Option<usize> {
    let name = query.get(HEADER..)?.iter().take(MAX_QUESTION - 4).position(|byte| *byte == 0)?;
    let end = HEADER + name + 5;
    (end <= query.len()).then_some(end)
}

/// Write a response to `out`: the query's id, the precompiled parts around the question, and the options, if any.
fn join(out: &mut [u8; MAX_RESPONSE], query: &[u8], variant: &Variant, question: &[u8], options: Options) -> Outcome {
    let tail = &variant.tail[..variant.tail.len() - options.cut];
    let length = HEADER + question.len() + tail.len() + options.written.len();
    if length > MAX_RESPONSE {
        return Outcome::SlowPath;
    }
    let mut at = 0;
    for part in [&query[..2], &variant.head, question, tail, options.written] {
        out[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    Outcome::Response(length)
}

/// Write a response that names several members: the response of the first member, with the addresses of the others
/// after its own. A first member without addresses of the queried type is the only one.
fn join_list(
    out: &mut [u8; MAX_RESPONSE],
    query: &[u8],
    variants: &[Variant],
    mut members: impl Iterator<Item = u32>,
    question: &[u8],
    options: Options,
) -> Outcome {
    let Some(first) = members.next().and_then(|member| variants.get(member as usize)) else {
        return Outcome::SlowPath;
    };
    let end = first.fragment.end;
    let last = first.tail.len() - options.cut;
    let mut at = 0;
    let mut put = |part: &[u8]| {
        let end = at + part.len();
        let fits = end <= MAX_RESPONSE;
        if fits {
            out[at..end].copy_from_slice(part);
            at = end;
        }
        fits
    };
    let mut fits = put(&query[..2]) && put(&first.head) && put(question) && put(&first.tail[..end]);
    let mut records = u16::from_be_bytes([first.head[4], first.head[5]]);
    if first.fragment.records > 0 {
        for variant in members.filter_map(|member| variants.get(member as usize)) {
            fits = fits && put(&variant.tail[variant.fragment.begin..variant.fragment.end]);
            records += variant.fragment.records;
        }
    }
    if !(fits && put(&first.tail[end..last]) && put(options.written)) {
        return Outcome::SlowPath;
    }
    let length = at;
    out[6..8].copy_from_slice(&records.to_be_bytes());
    Outcome::Response(length)
}
