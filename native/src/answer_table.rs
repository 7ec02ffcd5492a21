//! The precompiled answers for all pools, and the plan cursors that select their members. Python fills this table.

use std::collections::HashMap;

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

/// The plan cursor: a plan and the position of its next member.
#[derive(Default)]
pub struct Cursor {
    pub order: Vec<u32>, // never empty once a plan is set
    pub repeat_from: usize,
    pub at: usize,
    pub passes: u64,                // completed passes through the order
    pub affinity_window: f64,       // s: how long queries may join a lookup
    usable: Vec<bool>,              // by member: whether retransmissions and joining lookups may still get it
    pub lists: Option<MemberLists>, // if answers name several members: numbers of lists take the place of members
}

impl Cursor {
    pub fn new(affinity_window: f64, answers: usize) -> Cursor {
        let lists = (answers > 1).then(|| MemberLists::new(answers));
        Cursor { affinity_window, lists, ..Cursor::default() }
    }

    /// Replace the plan, and start at its beginning.
    ///
    /// `usable` lists every usable member, even members that are not in the plan.
    pub fn set_plan(&mut self, order: Vec<u32>, repeat_from: usize, usable: &[u32]) {
        self.usable = vec![false; usable.iter().max().map_or(0, |most| *most as usize + 1)];
        for member in usable {
            self.usable[*member as usize] = true;
        }
        (self.order, self.repeat_from, self.at, self.passes) = (order, repeat_from, 0, 0);
    }

    /// Return whether a member, or the first member of a list that is still stored, may be selected again.
    pub fn is_usable(&self, selected: u32) -> bool {
        match &self.lists {
            None => self.is_usable_member(selected),
            Some(lists) => lists.get(selected).is_some_and(|list| self.is_usable_member(list[0])),
        }
    }

    pub fn is_usable_member(&self, member: u32) -> bool {
        self.usable.get(member as usize).copied().unwrap_or(false)
    }

    /// Return the number of a list with the members that `take_next` would select; changes no position.
    pub fn due(&mut self) -> u32 {
        let at = if self.at < self.order.len() { self.at } else { self.repeat_from };
        self.selection(at)
    }

    /// Return the members of a list, best first, without those that are no longer usable; the first one always stays.
    pub fn members(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        let list = self.lists.as_ref().and_then(|lists| lists.get(number)).unwrap_or(&[]);
        list.iter().copied().enumerate().filter(|(n, member)| *n == 0 || self.is_usable_member(*member)).map(|(_, m)| m)
    }

    fn selection(&mut self, at: usize) -> u32 {
        match &mut self.lists {
            None => self.order[at],
            Some(lists) => lists.remember(&self.order, self.repeat_from, at, &self.usable),
        }
    }

    /// Select the plan's next member or list, and advance. The caller must set a plan first.
    pub fn take_next(&mut self) -> u32 {
        if self.at >= self.order.len() {
            self.passes += 1;
            self.at = self.repeat_from;
        }
        self.at += 1;
        self.selection(self.at - 1)
    }
}

/// All precompiled answers to one question.
pub struct Entry {
    pub key: Box<[u8]>, // the question's bytes, in lower case
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
    places: HashMap<Box<[u8]>, usize>,
}

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
        let place = *self.places.entry(key.into()).or_insert_with(|| {
            self.entries.push(Entry { key: key.into(), cursor, family, kinds: Vec::new(), queries: 0 });
            self.entries.len() - 1
        });
        let kinds = &mut self.entries[place].kinds;
        if kinds.len() <= kind {
            kinds.resize_with(kind + 1, Vec::new);
        }
        kinds[kind] = variants;
    }

    /// Remove all entries; the plan cursors stay.
    pub fn forget(&mut self) {
        self.entries.clear();
        self.places.clear();
    }

    /// Return the number of queries answered since the last call, by question, and reset all numbers.
    pub fn take_counts(&mut self) -> Vec<(&[u8], u64)> {
        self.entries
            .iter_mut()
            .filter(|entry| entry.queries > 0)
            .map(|entry| (&*entry.key, std::mem::take(&mut entry.queries)))
            .collect()
    }
}
