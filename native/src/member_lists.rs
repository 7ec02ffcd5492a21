//! Answers that name several members: which members follow the first one, and the lists that were sent recently.
//!
//! The decisions are the same as in `lbdns.answering.member_lists`, which documents them.

use std::collections::VecDeque;

const MAX_LISTS: usize = 65_536;
const LOOKAHEAD: usize = 64; // selections of a plan that one answer examines

/// The part of a plan that only answers with several members use, and the recent lists by number.
pub struct MemberLists {
    answers: usize, // members in an answer
    ranking: Vec<u32>,
    probes: usize,
    light: bool,
    recent: VecDeque<Box<[u32]>>, // the newest is last
    count: u32,                   // lists so far, modulo 2^32
}

impl MemberLists {
    pub fn new(answers: usize) -> MemberLists {
        MemberLists { answers, ranking: Vec::new(), probes: 0, light: false, recent: VecDeque::new(), count: 0 }
    }

    /// Replace the ranking and the boundaries of the plan's parts; the recent lists stay.
    pub fn set_plan(&mut self, ranking: Vec<u32>, probes: usize, light: bool) {
        (self.ranking, self.probes, self.light) = (ranking, probes, light);
    }

    /// Store the list for the selection at index `at` of the plan's order, and return the list's number.
    pub fn remember(&mut self, order: &[u32], repeat_from: usize, at: usize, usable: &[bool]) -> u32 {
        let list = self.list_at(order, repeat_from, at, usable);
        if self.recent.len() == MAX_LISTS {
            self.recent.pop_front();
        }
        self.recent.push_back(list.into());
        let number = self.count;
        self.count = self.count.wrapping_add(1);
        number
    }

    /// Return a list by its number, or None if it is no longer stored.
    pub fn get(&self, number: u32) -> Option<&[u32]> {
        let age = self.count.wrapping_sub(1).wrapping_sub(number) as usize;
        let place = self.recent.len().checked_sub(age.checked_add(1)?)?;
        self.recent.get(place).map(|list| &**list)
    }

    fn list_at(&self, order: &[u32], repeat_from: usize, at: usize, usable: &[bool]) -> Vec<u32> {
        let is_light = self.light && at < repeat_from;
        let start = self.probes.max(at + 1);
        let wanted = start + LOOKAHEAD;
        let end = wanted.min(if is_light { repeat_from } else { order.len() });
        let ahead = order.get(start..end).unwrap_or(&[]);
        let wrapped = if is_light { 0 } else { wanted.saturating_sub(order.len()).min(order.len() - repeat_from) };
        let again = &order[repeat_from..repeat_from + wrapped];
        let mut found = vec![order[at]];
        for member in ahead.iter().chain(again).chain(&self.ranking) {
            if found.len() >= self.answers {
                break;
            }
            if usable.get(*member as usize).copied().unwrap_or(false) && !found.contains(member) {
                found.push(*member);
            }
        }
        found
    }
}
