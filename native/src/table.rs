//! The compiled answers of one farm and the plans they are handed out by. Filled from outside; nothing is decided here.

use std::collections::HashMap;

/// What a query costs: finished bytes around id and question.
pub struct Variant {
    pub head: [u8; 10], // flags and counts
    pub tail: Box<[u8]>,
}

/// A plan and how far it has been given out, as `lbdns.answering.handout` keeps it.
#[derive(Default)]
pub struct Cursor {
    pub order: Vec<u32>, // never empty once a plan is set
    pub repeat_from: usize,
    pub at: usize,
    pub passes: u64,    // how often the order came to its end
    pub coherence: f64, // s for which types that belong together get the same member
    usable: Vec<bool>,  // by member: whether it may still be given to who was given it before
}

impl Cursor {
    pub fn new(coherence: f64) -> Cursor {
        Cursor { coherence, ..Cursor::default() }
    }

    /// From now on hand out this plan, from its beginning.
    pub fn set_plan(&mut self, order: Vec<u32>, repeat_from: usize, usable: &[u32]) {
        self.usable = vec![false; usable.iter().max().map_or(0, |most| *most as usize + 1)];
        for member in usable {
            self.usable[*member as usize] = true;
        }
        (self.order, self.repeat_from, self.at, self.passes) = (order, repeat_from, 0, 0);
    }

    pub fn is_usable(&self, member: u32) -> bool {
        self.usable.get(member as usize).copied().unwrap_or(false)
    }

    /// Hand out: the member that is due.
    pub fn hand_out(&mut self) -> u32 {
        if self.at >= self.order.len() {
            self.passes += 1;
            self.at = self.repeat_from;
        }
        let member = self.order[self.at];
        self.at += 1;
        member
    }
}

pub struct Entry {
    pub key: Box<[u8]>, // the question's bytes, in lower case
    pub cursor: Option<usize>,
    pub together: Option<usize>, // which of the types that belong together; None if it has its members alone
    pub kinds: Vec<Vec<Variant>>, // by kind: one for each member, or one in all; none if nobody has asked so yet
    pub asked: u64,
}

pub struct Table {
    pub ways: HashMap<Box<[u8]>, usize>,
    pub cookie_ways: HashMap<Box<[u8]>, usize>,
    pub cuts: Vec<Variant>, // by kind: "ask over TCP"
    pub cursors: Vec<Cursor>,
    entries: Vec<Entry>,
    places: HashMap<Box<[u8]>, usize>,
}

type Ways = HashMap<Box<[u8]>, usize>;

impl Table {
    pub fn new(ways: Ways, cookie_ways: Ways, cuts: Vec<Variant>) -> Table {
        Table { ways, cookie_ways, cuts, cursors: Vec::new(), entries: Vec::new(), places: HashMap::new() }
    }

    pub fn place(&self, key: &[u8]) -> Option<usize> {
        self.places.get(key).copied()
    }

    pub fn entry(&mut self, place: usize) -> &mut Entry {
        &mut self.entries[place]
    }

    /// Entry and, if it has one, the cursor it is handed out by, with its number.
    pub fn entry_and_cursor(&mut self, place: usize) -> (&mut Entry, Option<(usize, &mut Cursor)>) {
        let entry = &mut self.entries[place];
        let cursor = entry.cursor.map(|at| (at, &mut self.cursors[at]));
        (entry, cursor)
    }

    pub fn keep(
        &mut self,
        key: &[u8],
        cursor: Option<usize>,
        together: Option<usize>,
        kind: usize,
        variants: Vec<Variant>,
    ) {
        let place = *self.places.entry(key.into()).or_insert_with(|| {
            self.entries.push(Entry { key: key.into(), cursor, together, kinds: Vec::new(), asked: 0 });
            self.entries.len() - 1
        });
        let kinds = &mut self.entries[place].kinds;
        if kinds.len() <= kind {
            kinds.resize_with(kind + 1, Vec::new);
        }
        kinds[kind] = variants;
    }

    pub fn forget(&mut self) {
        self.entries.clear();
        self.places.clear();
    }

    /// Queries answered since the last call, by question.
    pub fn take_asked(&mut self) -> Vec<(&[u8], u64)> {
        self.entries
            .iter_mut()
            .filter(|entry| entry.asked > 0)
            .map(|entry| (&*entry.key, std::mem::take(&mut entry.asked)))
            .collect()
    }
}
