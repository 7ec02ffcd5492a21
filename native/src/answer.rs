//! The short way of one query, as `lbdns.answering.respond` has it: two look-ups, a member, the parts joined.
//! Whatever is not usual is left aside for the long way.

use std::net::IpAddr;

use crate::coherence::Coherence;
use crate::cookies::{Cookies, BOTH, CLIENT};
use crate::limit::Limiter;
use crate::recent::Recent;
use crate::table::{Table, Variant};

const HEADER: usize = 12;
const MAX_QUESTION: usize = 259; // bytes: a name, type and class
const OPT: usize = 11; // bytes of an OPT without options
const COOKIE_AT: usize = 15; // bytes from the root name of an OPT to the data of its first option
pub const MAX_RESPONSE: usize = 512; // bytes; only what fits every client is compiled

pub enum Outcome {
    Response(usize), // so many bytes
    Dropped,
    Aside,
}

/// What all queries of one wake-up have in common.
pub struct Context<'a> {
    pub table: &'a mut Table,
    pub limiter: &'a mut Limiter,
    pub recent: &'a mut Recent,
    pub coherence: &'a mut Coherence,
    pub cookies: Option<&'a Cookies>,
    pub now: f64,  // monotonic seconds
    pub wall: u64, // Unix seconds
}

impl Context<'_> {
    /// Answer `query` from `address` into `out`.
    pub fn answer(&mut self, query: &[u8], address: IpAddr, port: u16, out: &mut [u8; MAX_RESPONSE]) -> Outcome {
        let Some(end) = question_end(query) else { return Outcome::Aside };
        let question = &query[HEADER..end];
        let mut lower = [0; MAX_QUESTION];
        let lower = &mut lower[..question.len()];
        lower.copy_from_slice(question);
        lower.make_ascii_lowercase();
        let Some(place) = self.table.place(lower) else { return Outcome::Aside };
        let rest = &query[end..];
        let Some((kind, has_cookie)) = self.kind(&query[2..HEADER], rest) else { return Outcome::Aside };
        if self.table.entry(place).kinds.get(kind).is_none_or(Vec::is_empty) {
            return Outcome::Aside;
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
                return join(out, query, &self.table.cuts[kind], question, cookie);
            }
        }
        let (entry, cursor) = self.table.entry_and_cursor(place);
        let variants = &entry.kinds[kind];
        let member = match cursor {
            None => 0,
            Some((number, cursor)) => {
                let mark = self.recent.mark(address, port, query);
                match self.recent.member(mark, self.now) {
                    // One that can't be handed out any more is no answer, also not to who asked before
                    Some(member) if cursor.is_usable(member) => {
                        self.recent.repeated += 1;
                        member
                    }
                    _ => {
                        let member = match entry.together {
                            Some(which) => self.coherence.give(address, number, cursor, which, self.now),
                            None => cursor.hand_out(),
                        };
                        self.recent.note(mark, member, self.now);
                        member
                    }
                }
            }
        };
        entry.asked += 1;
        match variants.get(member as usize) {
            Some(variant) => join(out, query, variant, question, cookie),
            None => Outcome::Aside,
        }
    }

    /// The kind of a query with these bytes before and behind its question, and whether it has a cookie.
    fn kind(&self, head: &[u8], rest: &[u8]) -> Option<(usize, bool)> {
        let mut around = [0; 10 + COOKIE_AT];
        around[..10].copy_from_slice(head);
        let has_cookie = rest.len() == COOKIE_AT + CLIENT || rest.len() == COOKIE_AT + BOTH;
        if has_cookie {
            self.cookies?;
            if usize::from(rest[COOKIE_AT - 1]) != rest.len() - COOKIE_AT {
                return None; // a cookie shorter or longer than its option says
            }
            around[10..].copy_from_slice(&rest[..COOKIE_AT]);
            return self.table.cookie_ways.get(&around[..]).map(|kind| (*kind, true));
        }
        if rest.len() > OPT {
            return None;
        }
        around[10..10 + rest.len()].copy_from_slice(rest);
        self.table.ways.get(&around[..10 + rest.len()]).map(|kind| (*kind, false))
    }
}

/// Where the question ends, if there is room for one. A name with a zero byte inside a label is not found in the table.
fn question_end(query: &[u8]) -> Option<usize> {
    let name = query.get(HEADER..)?.iter().take(MAX_QUESTION - 4).position(|byte| *byte == 0)?;
    let end = HEADER + name + 5;
    (end <= query.len()).then_some(end)
}

fn join(out: &mut [u8; MAX_RESPONSE], query: &[u8], variant: &Variant, question: &[u8], cookie: &[u8]) -> Outcome {
    let length = HEADER + question.len() + variant.tail.len() + cookie.len();
    if length > MAX_RESPONSE {
        return Outcome::Aside;
    }
    let mut at = 0;
    for part in [&query[..2], &variant.head, question, &variant.tail, cookie] {
        out[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    Outcome::Response(length)
}
