//! The types that queues contain, without sockets.

pub const SPARED: usize = 4;

pub struct UnansweredQuery(pub usize);

pub struct Sample(pub usize);

pub struct Room {
    pub left: usize,
    pub only_sound: bool,
}
