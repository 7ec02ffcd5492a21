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
const COOKIE_AT: usize = 15; // bytes from the start of an OPT record to the data of its first option
pub const MAX_RESPONSE: usize = 512; // bytes that every client accepts (RFC 1035 section 2.3.4)

/// The result of one query on the fast path.
pub enum Outcome {
    Response(usize), // the length of the response, in bytes
    Dropped,         // by the rate limit
    SlowPath,        // the slow path must answer
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
        let Some((kind, has_cookie)) = self.kind(&query[2..HEADER], rest) else { return Outcome::SlowPath };
        if self.table.entry(place).kinds.get(kind).is_none_or(Vec::is_empty) {
            return Outcome::SlowPath;
        }
        let mut answered = ([0; BOTH], false);
        if let (true, Some(cookies)) = (has_cookie, self.cookies) {
            answered = cookies.answer(&rest[COOKIE_AT..], address, self.wall);
        }
        let (cookie, known) = (if has_cookie { &answered.0[..] } else { &[] }, answered.1);
        if !known {
            let over = self.limiter.count(address, &self.table.entry(place).key);
            if over > 0 {
                if self.limiter.drops(over, address) {
                    return Outcome::Dropped;
                }
                return join(out, query, &self.table.truncated[kind], question, cookie);
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
                return join_list(out, query, variants, cursor.members(member), question, cookie);
            }
        }
        match variants.get(member as usize) {
            Some(variant) => join(out, query, variant, question, cookie),
            None => Outcome::SlowPath,
        }
    }

    /// Return the kind of response for a query with these bytes around its question (its shape), and whether it carries
    /// a cookie; None if the fast path has no answer for this shape.
    ///
    /// `head` is the header without the id; `rest` follows the question.
    fn kind(&self, head: &[u8], rest: &[u8]) -> Option<(usize, bool)> {
        let mut around = [0; 10 + COOKIE_AT];
        around[..10].copy_from_slice(head);
        let has_cookie = rest.len() == COOKIE_AT + CLIENT || rest.len() == COOKIE_AT + BOTH;
        if has_cookie {
            self.cookies?;
            if usize::from(rest[COOKIE_AT - 1]) != rest.len() - COOKIE_AT {
                return None; // the option's length doesn't match the bytes that follow it
            }
            around[10..].copy_from_slice(&rest[..COOKIE_AT]);
            return self.table.cookie_shapes.get(&around[..]).map(|kind| (*kind, true));
        }
        if rest.len() > OPT {
            return None;
        }
        around[10..10 + rest.len()].copy_from_slice(rest);
        self.table.shapes.get(&around[..10 + rest.len()]).map(|kind| (*kind, false))
    }
}

/// Return the offset of the first byte after the question, or None if the query is too short to contain one.
///
/// The first zero byte is taken as the end of the name. If it lies inside a label, the table has no such key.
fn question_end(query: &[u8]) -> Option<usize> {
    let name = query.get(HEADER..)?.iter().take(MAX_QUESTION - 4).position(|byte| *byte == 0)?;
    let end = HEADER + name + 5;
    (end <= query.len()).then_some(end)
}

/// Write a response to `out`: the query's id, the precompiled parts around the question, and the cookie, if any.
fn join(out: &mut [u8; MAX_RESPONSE], query: &[u8], variant: &Variant, question: &[u8], cookie: &[u8]) -> Outcome {
    let length = HEADER + question.len() + variant.tail.len() + cookie.len();
    if length > MAX_RESPONSE {
        return Outcome::SlowPath;
    }
    let mut at = 0;
    for part in [&query[..2], &variant.head, question, &variant.tail, cookie] {
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
    cookie: &[u8],
) -> Outcome {
    let Some(first) = members.next().and_then(|member| variants.get(member as usize)) else {
        return Outcome::SlowPath;
    };
    let end = first.fragment.end;
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
    if !(fits && put(&first.tail[end..]) && put(cookie)) {
        return Outcome::SlowPath;
    }
    let length = at;
    out[6..8].copy_from_slice(&records.to_be_bytes());
    Outcome::Response(length)
}
