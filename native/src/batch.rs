//! Datagrams by the batch: up to 64 read with one call of the kernel and as many answers sent with another.
//! Linux (recvmmsg(2), sendmmsg(2)).

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::RawFd;
use std::ptr;
use std::time::{Duration, Instant};

use crate::answer::{Context, Outcome, MAX_RESPONSE};
use crate::sample::Sampler;

pub const BATCH: usize = 64;
const SPARED: usize = 4; // queries of a batch that still take the long way when there are more than can
const MAX_QUERY: usize = 4096; // bytes read of a datagram; no query is that long
const HEADER: usize = 12; // bytes
const CONTROL: usize = 64; // bytes: room for one packet info of either family

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// Where a datagram came from and what its answer has to say to leave from the address that was asked.
#[derive(Clone)]
pub struct Peer {
    name: libc::sockaddr_storage,
    name_length: libc::socklen_t,
    control: Control,
    control_length: usize,
}

impl Peer {
    /// Address, port, and for IPv6 flow and scope.
    pub fn address(&self) -> Option<(IpAddr, u16, u32, u32)> {
        match libc::c_int::from(self.name.ss_family) {
            libc::AF_INET => {
                // SAFETY: the kernel wrote an address of this family; sockaddr_storage is large enough and aligned
                let four = unsafe { &*ptr::from_ref(&self.name).cast::<libc::sockaddr_in>() };
                let address = Ipv4Addr::from(u32::from_be(four.sin_addr.s_addr));
                Some((address.into(), u16::from_be(four.sin_port), 0, 0))
            }
            libc::AF_INET6 => {
                // SAFETY: as above
                let six = unsafe { &*ptr::from_ref(&self.name).cast::<libc::sockaddr_in6>() };
                let address = Ipv6Addr::from(six.sin6_addr.s6_addr);
                Some((address.into(), u16::from_be(six.sin6_port), u32::from_be(six.sin6_flowinfo), six.sin6_scope_id))
            }
            _ => None,
        }
    }
}

/// A query that is left for the long way.
pub struct Aside {
    pub query: Vec<u8>,
    pub peer: Peer,
}

/// A query that was taken for the query log, and what became of it.
pub struct Sample {
    pub query: Vec<u8>,
    pub peer: Peer,
    pub response: Option<Vec<u8>>, // None: it was not answered
    pub took: Duration,
}

/// The buffers of one socket. The headers point into the buffers, so none of the boxes is ever replaced.
pub struct Batch {
    queries: Box<[[u8; MAX_QUERY]]>,
    names: Box<[libc::sockaddr_storage]>,
    controls: Box<[Control]>,
    responses: Box<[[u8; MAX_RESPONSE]]>,
    in_pieces: Box<[libc::iovec]>,
    out_pieces: Box<[libc::iovec]>,
    received: Box<[libc::mmsghdr]>,
    sent: Box<[libc::mmsghdr]>,
    pub sampler: Option<Sampler>,
    pub samples: Vec<Sample>,       // of the last batch
    pub sampled_asides: Vec<usize>, // of the last batch: which of those that were left aside are taken
}

// SAFETY: the pointers inside lead to boxes of the same value, which move with it
unsafe impl Send for Batch {}
unsafe impl Sync for Batch {}

/// What became of the datagrams of one batch.
#[derive(Default)]
pub struct Done {
    pub queries: usize,
    pub unsent: usize, // responses the kernel would not take
    pub shed: usize,   // queries not answered because there are too many that take the long way
    pub asides: Vec<Aside>,
}

impl Batch {
    pub fn new() -> Batch {
        // SAFETY: all of these are plain data for which zeros are valid
        let mut batch = unsafe {
            Batch {
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
                sampled_asides: Vec::new(),
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

    /// What the kernel shortens with every datagram is given its full length again.
    fn prepare(&mut self, at: usize) {
        let header = &mut self.received[at].msg_hdr;
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        header.msg_controllen = CONTROL as _;
    }

    /// Read what is waiting, at most a batch; answer what is usual, and give back the rest. Errors are of reading.
    ///
    /// `overloaded`: of what is not usual only a few are given back, and nothing that looks broken.
    pub fn drain(&mut self, fd: RawFd, context: &mut Context, overloaded: bool) -> io::Result<Done> {
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: every header points to buffers of the lengths it says, which live as long as self
        let count = unsafe { libc::recvmmsg(fd, self.received.as_mut_ptr(), BATCH as _, flags as _, ptr::null_mut()) };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(Done::default()) } else { Err(error) };
        }
        let mut done = Done { queries: count as usize, ..Done::default() };
        let mut responses = 0;
        let mut sampled_at = self.first_sample();
        for at in 0..count as usize {
            let length = (self.received[at].msg_len as usize).min(MAX_QUERY);
            let query = &self.queries[at][..length];
            let peer = self.peer(at);
            let Some((address, port, _, _)) = peer.address() else { continue };
            let begin = (at >= sampled_at).then(Instant::now);
            let outcome = context.answer(query, address, port, &mut self.responses[at]);
            if let Some(begin) = begin {
                let is_aside = matches!(outcome, Outcome::Aside) && deserves_answer(query);
                if is_aside && !(overloaded && sheds(query, done.asides.len())) {
                    self.sampled_asides.push(done.asides.len());
                } else {
                    let response = match outcome {
                        Outcome::Response(length) => Some(self.responses[at][..length].to_vec()),
                        Outcome::Dropped | Outcome::Aside => None,
                    };
                    self.samples.push(Sample {
                        query: query.to_vec(),
                        peer: peer.clone(),
                        response,
                        took: begin.elapsed(),
                    });
                }
                sampled_at = self.sampler.as_mut().map_or(BATCH, |sampler| sampler.after(at as u64) as usize);
            }
            match outcome {
                Outcome::Response(length) => {
                    self.answer(at, responses, length);
                    responses += 1;
                }
                Outcome::Dropped => {}
                Outcome::Aside if !deserves_answer(query) => {}
                Outcome::Aside if overloaded && sheds(query, done.asides.len()) => done.shed += 1,
                Outcome::Aside => done.asides.push(Aside { query: query.to_vec(), peer }),
            }
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.pass(count as u64);
        }
        done.unsent = send(fd, &mut self.sent[..responses]);
        for at in 0..count as usize {
            self.prepare(at);
        }
        Ok(done)
    }

    /// Where in the batch that has just been read the first one is that is taken; behind its end if none is.
    fn first_sample(&mut self) -> usize {
        self.samples.clear();
        self.sampled_asides.clear();
        self.sampler.as_ref().map_or(BATCH, |sampler| sampler.first() as usize)
    }

    fn peer(&self, at: usize) -> Peer {
        let header = &self.received[at].msg_hdr;
        Peer {
            name: self.names[at],
            name_length: header.msg_namelen,
            control: self.controls[at],
            control_length: header.msg_controllen,
        }
    }

    /// Make the answer to datagram `at`, so many bytes long, the next one that is sent.
    fn answer(&mut self, at: usize, place: usize, length: usize) {
        self.out_pieces[at].iov_len = length;
        let mut header = self.received[at].msg_hdr;
        header.msg_iov = &mut self.out_pieces[at];
        header.msg_flags = 0;
        // SAFETY: the control data lies in controls[at], as the kernel wrote it
        unsafe { leave_from_asked(&mut header) };
        self.sent[place].msg_hdr = header;
    }
}

/// Whether it is a query at all: what is shorter than a header, or a response, is never answered.
fn deserves_answer(message: &[u8]) -> bool {
    message.len() >= HEADER && message[2] & 0x80 == 0
}

/// Whether a query that is not usual is left unanswered while there are too many, `before` it so many of its batch that
/// were not.
fn sheds(query: &[u8], before: usize) -> bool {
    before == SPARED || !looks_sound(query)
}

/// Whether the header is one that a query has: one question, nothing in the sections that responses fill.
fn looks_sound(query: &[u8]) -> bool {
    query[2] & 0x78 == 0 && query[4..11] == [0, 1, 0, 0, 0, 0, 0] && query[11] <= 2
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

/// Send one response later. Whether the kernel took it.
pub fn reply(fd: RawFd, peer: &Peer, response: &[u8]) -> bool {
    let mut peer = peer.clone();
    let mut piece = libc::iovec { iov_base: response.as_ptr().cast_mut().cast(), iov_len: response.len() };
    // SAFETY: zeros are valid; everything the header points to lives until the call is over
    unsafe {
        let mut message: libc::mmsghdr = zeroed();
        let header = &mut message.msg_hdr;
        header.msg_name = ptr::from_mut(&mut peer.name).cast();
        header.msg_namelen = peer.name_length;
        header.msg_iov = &mut piece;
        header.msg_iovlen = 1;
        header.msg_control = peer.control.0.as_mut_ptr().cast();
        header.msg_controllen = peer.control_length as _;
        leave_from_asked(header);
        send(fd, std::slice::from_mut(&mut message)) == 0
    }
}

/// Turn the packet info of a query into that of its answer: from the same address; the interface is left to the routes,
/// but for IPv6, where a link-local address means nothing without it.
///
/// SAFETY: the control data of `header` is what recvmmsg wrote.
unsafe fn leave_from_asked(header: &mut libc::msghdr) {
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

/// Send all of these; how many the kernel would not take. None of them is tried twice: the client asks again.
fn send(fd: RawFd, messages: &mut [libc::mmsghdr]) -> usize {
    let mut unsent = 0;
    let mut at = 0;
    while at < messages.len() {
        let rest = &mut messages[at..];
        // SAFETY: the headers point to buffers that live during the call
        let count = unsafe { libc::sendmmsg(fd, rest.as_mut_ptr(), rest.len() as _, libc::MSG_DONTWAIT as _) };
        if count <= 0 {
            unsent += 1; // it is the first one that failed
            at += 1;
        } else {
            at += count as usize;
        }
    }
    unsent
}
