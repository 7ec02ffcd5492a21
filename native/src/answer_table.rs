//! The precompiled answers for all pools, and the plan cursors that select their members. Python fills this table.

use std::collections::HashMap;
use std::sync::Arc;

use crate::member_lists::MemberLists;

/// A precompiled response: the bytes before and after the question.
///
/// Only the id and the question are copied from the query.
pub struct Variant {
    pub head: [u8; 10], // flags and section counts
    pub tail: Box<[u8]>,
    pub fragment: Fragment, // the member's addresses in the tail; empty unless answers name several members
}

/// Records that answers with several members copy from the tail of a response that names one member.
#[derive(Clone, Copy, Default)]
pub struct Fragment {
    pub begin: usize,
    pub end: usize,
    pub records: u16,
}

/// A plan in the form that a cursor needs.
#[derive(Default)]
pub struct CursorPlan {
    order: Vec<u32>, // never empty once a plan is set
    repeat_from: usize,
    usable: Vec<bool>, // by member: whether retransmissions and joining lookups may still get it
}

impl CursorPlan {
    /// `usable` lists every usable member, even members that are not in the plan.
    pub fn new(order: Vec<u32>, repeat_from: usize, usable: &[u32]) -> CursorPlan {
        let mut flags = vec![false; usable.iter().max().map_or(0, |most| *most as usize + 1)];
        for member in usable {
            flags[*member as usize] = true;
        }
        CursorPlan { order, repeat_from, usable: flags }
    }
}

/// The plan cursor: a plan and the position of its next member.
#[derive(Default)]
pub struct Cursor {
    plan: CursorPlan,
    at: usize,
    passes: u64,                    // completed passes through the order
    pub affinity_window: f64,       // s: how long queries may join a lookup
    pub lists: Option<MemberLists>, // if answers name several members: numbers of lists take the place of members
}

impl Cursor {
    pub fn new(affinity_window: f64, answers: usize) -> Cursor {
        let lists = (answers > 1).then(|| MemberLists::new(answers));
        Cursor { affinity_window, lists, ..Cursor::default() }
    }

    /// Exchange the plan and `plan`, start at its beginning, and return the position at which the old plan has ended.
    pub fn set_plan(&mut self, plan: &mut CursorPlan) -> (usize, u64) {
        std::mem::swap(&mut self.plan, plan);
        (std::mem::take(&mut self.at), std::mem::take(&mut self.passes))
    }

    pub fn has_plan(&self) -> bool {
        !self.plan.order.is_empty()
    }

    /// Return the index in the plan's order, and the number of completed passes.
    pub fn position(&self) -> (usize, u64) {
        (self.at, self.passes)
    }

    /// Return whether a member, or the first member of a list that is still stored, may be selected again.
    pub fn is_usable(&self, selected: u32) -> bool {
        match &self.lists {
            None => self.is_usable_member(selected),
            Some(lists) => lists.get(selected).is_some_and(|list| self.is_usable_member(list[0])),
        }
    }

    pub fn is_usable_member(&self, member: u32) -> bool {
        self.plan.usable.get(member as usize).copied().unwrap_or(false)
    }

    /// Return the number of a list with the members that `take_next` would select; changes no position.
    pub fn due(&mut self) -> u32 {
        let at = if self.at < self.plan.order.len() { self.at } else { self.plan.repeat_from };
        self.selection(at)
    }

    /// Return the members of a list, best first, without those that are no longer usable; the first one always stays.
    pub fn members(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        let list = self.lists.as_ref().and_then(|lists| lists.get(number)).unwrap_or(&[]);
        list.iter().copied().enumerate().filter(|(n, member)| *n == 0 || self.is_usable_member(*member)).map(|(_, m)| m)
    }

    fn selection(&mut self, at: usize) -> u32 {
        let plan = &self.plan;
        match &mut self.lists {
            None => plan.order[at],
            Some(lists) => lists.remember(&plan.order, plan.repeat_from, at, &plan.usable),
        }
    }

    /// Select the plan's next member or list, and advance. The caller must set a plan first.
    pub fn take_next(&mut self) -> u32 {
        if self.at >= self.plan.order.len() {
            self.passes += 1;
            self.at = self.plan.repeat_from;
        }
        self.at += 1;
        self.selection(self.at - 1)
    }
}

/// All precompiled answers to one question.
pub struct Entry {
    pub key: Arc<[u8]>, // the question's bytes, in lower case
    pub cursor: Option<usize>,
    pub family: Option<usize>, // the type's number for address family affinity; None if it takes no part
    pub kinds: Vec<Vec<Variant>>, // by kind: one variant per member, or a single one; empty until compiled
    pub queries: u64,          // queries answered since the last take_counts
}

/// The precompiled answers, by question, and the plan cursors.
pub struct AnswerTable {
    pub shapes: HashMap<Box<[u8]>, usize>, // query shape -> kind, for queries without a cookie
    pub cookie_shapes: HashMap<Box<[u8]>, usize>, // the same for queries with a cookie
    pub truncated: Vec<Variant>,           // by kind: the truncated response, which makes the client retry over TCP
    pub cursors: Vec<Cursor>,
    entries: Vec<Entry>,
    places: HashMap<Arc<[u8]>, usize>,
}

/// The number of queries for each question.
type QuestionCounts = Vec<(Arc<[u8]>, u64)>;

type Shapes = HashMap<Box<[u8]>, usize>;

impl AnswerTable {
    pub fn new(shapes: Shapes, cookie_shapes: Shapes, truncated: Vec<Variant>) -> AnswerTable {
        AnswerTable {
            shapes,
            cookie_shapes,
            truncated,
            cursors: Vec::new(),
            entries: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Return the index of the entry for a question in lower case, or None.
    pub fn place(&self, key: &[u8]) -> Option<usize> {
        self.places.get(key).copied()
    }

    pub fn entry(&mut self, place: usize) -> &mut Entry {
        &mut self.entries[place]
    }

    /// Return an entry and, if the entry has a plan cursor, the cursor and its number.
    pub fn entry_and_cursor(&mut self, place: usize) -> (&mut Entry, Option<(usize, &mut Cursor)>) {
        let entry = &mut self.entries[place];
        let cursor = entry.cursor.map(|at| (at, &mut self.cursors[at]));
        (entry, cursor)
    }

    /// Store the responses of one kind to a question; they replace earlier responses.
    pub fn keep(
        &mut self,
        key: &[u8],
        cursor: Option<usize>,
        family: Option<usize>,
        kind: usize,
        variants: Vec<Variant>,
    ) {
        let key: Arc<[u8]> = key.into();
        let place = *self.places.entry(key.clone()).or_insert_with(|| {
            self.entries.push(Entry { key, cursor, family, kinds: Vec::new(), queries: 0 });
            self.entries.len() - 1
        });
        let kinds = &mut self.entries[place].kinds;
        if kinds.len() <= kind {
            kinds.resize_with(kind + 1, Vec::new);
        }
        kinds[kind] = variants;
    }

    /// Remove and return all entries, and what `take_counts` would have returned; the plan cursors stay.
    pub fn forget(&mut self) -> (Vec<Entry>, QuestionCounts) {
        let counts = self.take_counts();
        self.places.clear();
        (std::mem::take(&mut self.entries), counts)
    }

    /// Return the number of queries answered since the last call, by question, and reset all numbers.
    pub fn take_counts(&mut self) -> QuestionCounts {
        self.entries
            .iter_mut()
            .filter(|entry| entry.queries > 0)
            .map(|entry| (entry.key.clone(), std::mem::take(&mut entry.queries)))
            .collect()
    }
}
