//! Batched socket I/O on Linux: read up to 64 datagrams with one recvmmsg(2), send their answers with one sendmmsg(2).

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::RawFd;
use std::ptr;
use std::time::{Duration, Instant};

use crate::fast_path::{Context, Outcome, MAX_RESPONSE};
use crate::query_sampler::QuerySampler;

pub const BATCH: usize = 64;
pub const SPARED: usize = 4; // slow-path queries that may still wait during overload
const MAX_QUERY: usize = 4096; // bytes read from a datagram; real queries are far shorter
const HEADER: usize = 12; // bytes
const CONTROL: usize = 64; // bytes: room for one IP_PKTINFO or IPV6_PKTINFO control message

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// The sender of a datagram, with the control data that sets the answer's source to the queried address.
#[derive(Clone)]
pub struct Peer {
    name: libc::sockaddr_storage,
    name_length: libc::socklen_t,
    control: Control,
    control_length: usize,
}

impl Peer {
    /// Return the address and port and, for IPv6, the flow information and scope id (0 for IPv4).
    pub fn address(&self) -> Option<(IpAddr, u16, u32, u32)> {
        socket_address(&self.name)
    }
}

/// Return the address and port and, for IPv6, the flow information and scope id (0 for IPv4) that the kernel wrote.
pub fn socket_address(name: &libc::sockaddr_storage) -> Option<(IpAddr, u16, u32, u32)> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the kernel wrote an address of this family; sockaddr_storage is large enough and aligned
            let four = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from(u32::from_be(four.sin_addr.s_addr));
            Some((address.into(), u16::from_be(four.sin_port), 0, 0))
        }
        libc::AF_INET6 => {
            // SAFETY: as above
            let six = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(six.sin6_addr.s6_addr);
            Some((address.into(), u16::from_be(six.sin6_port), u32::from_be(six.sin6_flowinfo), six.sin6_scope_id))
        }
        _ => None,
    }
}

/// A query that takes the slow path.
pub struct UnansweredQuery {
    pub query: Vec<u8>,
    pub peer: Peer,
    pub is_sampled: bool, // for the query log
}

/// A query sampled for the query log, with its response.
pub struct Sample {
    pub query: Vec<u8>,
    pub peer: Peer,
    pub response: Option<Vec<u8>>, // None if the query got no answer
    pub took: Duration,
}

/// The receive and send buffers for one socket. The headers point into the boxed buffers, so no box is ever replaced.
pub struct DatagramBatch {
    queries: Box<[[u8; MAX_QUERY]]>,
    names: Box<[libc::sockaddr_storage]>,
    controls: Box<[Control]>,
    responses: Box<[[u8; MAX_RESPONSE]]>,
    in_pieces: Box<[libc::iovec]>,
    out_pieces: Box<[libc::iovec]>,
    received: Box<[libc::mmsghdr]>,
    sent: Box<[libc::mmsghdr]>,
    pub sampler: Option<QuerySampler>,
    pub samples: Vec<Sample>, // sampled from the last batch and already finished
    read: usize,              // datagrams of the last batch
    responses_ready: usize,   // answers that `send` has yet to send
}

// SAFETY: the pointers lead only to boxes that this value owns; moving the value doesn't move their contents
unsafe impl Send for DatagramBatch {}
unsafe impl Sync for DatagramBatch {}

/// The result of one batch.
#[derive(Default)]
pub struct Done {
    pub shed: usize, // slow-path queries left unanswered because of overload
    pub unanswered: Vec<UnansweredQuery>,
}

/// How many slow-path queries a batch may leave.
#[derive(Clone, Copy)]
pub struct Room {
    pub left: usize,
    pub only_sound: bool, // during overload: none that looks unsound
}

impl Room {
    pub fn new(is_overloaded: bool) -> Room {
        Room { left: if is_overloaded { SPARED } else { usize::MAX }, only_sound: is_overloaded }
    }

    /// Report whether to shed a slow-path query; `before` earlier queries in the batch were not shed.
    fn sheds(&self, query: &[u8], before: usize) -> bool {
        before >= self.left || (self.only_sound && !looks_sound(query))
    }
}

impl DatagramBatch {
    pub fn new() -> DatagramBatch {
        // SAFETY: all fields are plain data, for which zeros are valid
        let mut batch = unsafe {
            DatagramBatch {
                queries: vec![[0; MAX_QUERY]; BATCH].into(),
                names: vec![zeroed(); BATCH].into(),
                controls: vec![Control([0; CONTROL]); BATCH].into(),
                responses: vec![[0; MAX_RESPONSE]; BATCH].into(),
                in_pieces: vec![zeroed(); BATCH].into(),
                out_pieces: vec![zeroed(); BATCH].into(),
                received: vec![zeroed(); BATCH].into(),
                sent: vec![zeroed(); BATCH].into(),
                sampler: None,
                samples: Vec::new(),
                read: 0,
                responses_ready: 0,
            }
        };
        for at in 0..BATCH {
            batch.in_pieces[at] = libc::iovec { iov_base: batch.queries[at].as_mut_ptr().cast(), iov_len: MAX_QUERY };
            batch.out_pieces[at].iov_base = batch.responses[at].as_mut_ptr().cast();
            let header = &mut batch.received[at].msg_hdr;
            header.msg_iov = &mut batch.in_pieces[at];
            header.msg_iovlen = 1;
            header.msg_name = ptr::from_mut(&mut batch.names[at]).cast();
            header.msg_control = batch.controls[at].0.as_mut_ptr().cast();
            batch.prepare(at);
        }
        batch
    }

    /// Reset the buffer lengths in one header, because the kernel overwrites the lengths with every datagram.
    fn prepare(&mut self, at: usize) {
        let header = &mut self.received[at].msg_hdr;
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        header.msg_controllen = CONTROL as _;
    }

    /// Read up to one batch of waiting datagrams, and return their number. Returns an error if reading fails.
    pub fn receive(&mut self, fd: RawFd) -> io::Result<usize> {
        for at in 0..self.read {
            self.prepare(at);
        }
        self.read = 0;
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: every header points to buffers of the stated lengths, which live as long as self
        let count = unsafe { libc::recvmmsg(fd, self.received.as_mut_ptr(), BATCH as _, flags as _, ptr::null_mut()) };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) };
        }
        self.read = count as usize;
        Ok(self.read)
    }

    /// Answer the queries of the batch on the fast path, and return the others; `send` sends the answers.
    ///
    /// Of the others, at most `room.left` are returned. All further ones are counted as shed.
    pub fn answer(&mut self, context: &mut Context, room: Room) -> Done {
        let mut done = Done::default();
        let mut sampled_at = self.first_sample();
        self.responses_ready = 0;
        for at in 0..self.read {
            let length = (self.received[at].msg_len as usize).min(MAX_QUERY);
            let query = &self.queries[at][..length];
            let peer = self.peer(at);
            let Some((address, port, _, _)) = peer.address() else { continue };
            let begin = (at >= sampled_at).then(Instant::now);
            let outcome = context.answer(query, address, port, &mut self.responses[at]);
            let is_slow = matches!(outcome, Outcome::SlowPath) && deserves_answer(query);
            let is_shed = is_slow && room.sheds(query, done.unanswered.len());
            let is_left = is_slow && !is_shed;
            if let Some(begin) = begin {
                if !is_left {
                    let response = match outcome {
                        Outcome::Response(length) => Some(self.responses[at][..length].to_vec()),
                        Outcome::Dropped | Outcome::SlowPath => None,
                    };
                    let (query, peer) = (query.to_vec(), peer.clone());
                    self.samples.push(Sample { query, peer, response, took: begin.elapsed() });
                }
                sampled_at = self.sampler.as_mut().map_or(BATCH, |sampler| sampler.after(at as u64) as usize);
            }
            done.shed += usize::from(is_shed);
            if let Outcome::Response(length) = outcome {
                self.prepare_response(at, self.responses_ready, length);
                self.responses_ready += 1;
            } else if is_left {
                done.unanswered.push(UnansweredQuery { query: query.to_vec(), peer, is_sampled: begin.is_some() });
            }
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.pass(self.read as u64);
        }
        done
    }

    /// Send the answers of the batch, and return how many the kernel refused.
    pub fn send(&mut self, fd: RawFd) -> usize {
        let ready = std::mem::take(&mut self.responses_ready);
        send(fd, &mut self.sent[..ready])
    }

    /// Clear the last batch's samples, and return the index of the first query to sample (at least `BATCH` if none).
    fn first_sample(&mut self) -> usize {
        self.samples.clear();
        self.sampler.as_ref().map_or(BATCH, |sampler| sampler.first() as usize)
    }

    /// Return the sender of datagram `at`.
    fn peer(&self, at: usize) -> Peer {
        let header = &self.received[at].msg_hdr;
        Peer {
            name: self.names[at],
            name_length: header.msg_namelen,
            control: self.controls[at],
            control_length: header.msg_controllen,
        }
    }

    /// Put the answer to datagram `at`, which is `length` bytes long, at index `place` of the messages to send.
    fn prepare_response(&mut self, at: usize, place: usize, length: usize) {
        self.out_pieces[at].iov_len = length;
        let mut header = self.received[at].msg_hdr;
        header.msg_iov = &mut self.out_pieces[at];
        header.msg_flags = 0;
        // SAFETY: header.msg_control points to controls[at], which the kernel has filled
        unsafe { reply_from_query_address(&mut header) };
        self.sent[place].msg_hdr = header;
    }
}

/// Report whether a message may be answered; responses and messages shorter than a header may not.
fn deserves_answer(message: &[u8]) -> bool {
    message.len() >= HEADER && message[2] & 0x80 == 0
}

/// Report whether a header is typical of a query: one question, no answers, and at most two additional records.
fn looks_sound(query: &[u8]) -> bool {
    query[2] & 0x78 == 0 && query[4..11] == [0, 1, 0, 0, 0, 0, 0] && query[11] <= 2
}

impl Default for DatagramBatch {
    fn default() -> DatagramBatch {
        DatagramBatch::new()
    }
}

/// Send one response to a query that took the slow path, and report whether the kernel accepted the response.
pub fn reply(fd: RawFd, peer: &Peer, response: &[u8]) -> bool {
    let mut peer = peer.clone();
    let mut piece = libc::iovec { iov_base: response.as_ptr().cast_mut().cast(), iov_len: response.len() };
    // SAFETY: zeros are valid; everything that the header points to outlives the call
    unsafe {
        let mut message: libc::mmsghdr = zeroed();
        let header = &mut message.msg_hdr;
        header.msg_name = ptr::from_mut(&mut peer.name).cast();
        header.msg_namelen = peer.name_length;
        header.msg_iov = &mut piece;
        header.msg_iovlen = 1;
        header.msg_control = peer.control.0.as_mut_ptr().cast();
        header.msg_controllen = peer.control_length as _;
        reply_from_query_address(header);
        send(fd, std::slice::from_mut(&mut message)) == 0
    }
}

/// Turn the packet info received with a query into the packet info for its answer, so that the answer leaves from the
/// address the query was sent to.
///
/// For IPv4 the routing table chooses the interface. For IPv6 the interface stays: a link-local address is meaningless
/// without it.
///
/// SAFETY: the control data of `header` must be as recvmmsg wrote it.
unsafe fn reply_from_query_address(header: &mut libc::msghdr) {
    if header.msg_controllen == 0 {
        header.msg_control = ptr::null_mut();
        return;
    }
    let first = libc::CMSG_FIRSTHDR(header);
    if !first.is_null() && (*first).cmsg_level == libc::IPPROTO_IP && (*first).cmsg_type == libc::IP_PKTINFO {
        let info = libc::CMSG_DATA(first).cast::<libc::in_pktinfo>();
        (*info).ipi_ifindex = 0;
        (*info).ipi_addr.s_addr = 0;
    }
}

/// Send all messages and return the number that the kernel refused. Nothing is sent twice: clients retransmit.
fn send(fd: RawFd, messages: &mut [libc::mmsghdr]) -> usize {
    let mut unsent = 0;
    let mut at = 0;
    while at < messages.len() {
        let rest = &mut messages[at..];
        // SAFETY: the headers point to buffers that outlive the call
        let count = unsafe { libc::sendmmsg(fd, rest.as_mut_ptr(), rest.len() as _, libc::MSG_DONTWAIT as _) };
        if count <= 0 {
            unsent += 1; // sendmmsg fails only if the first message fails
            at += 1;
        } else {
            at += count as usize;
        }
    }
    unsent
}
