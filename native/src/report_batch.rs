//! Reads batches of report datagrams on Linux: up to 64 with one recvmmsg(2).

use std::io;
use std::mem::{size_of, zeroed};
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::ptr;

use crate::datagram_batch::{socket_address, BATCH};
use crate::report_envelope::MAX_DATAGRAM;

const BUFFER: usize = MAX_DATAGRAM + 1; // bytes; one byte more than the limit shows whether a datagram is too long

/// The receive buffers for one socket. The headers point into the boxed buffers, so no box is ever replaced.
pub struct ReportBatch {
    datagrams: Box<[[u8; BUFFER]]>,
    names: Box<[libc::sockaddr_storage]>,
    pieces: Box<[libc::iovec]>,
    received: Box<[libc::mmsghdr]>,
    count: usize,
}

// SAFETY: the pointers lead only to boxes that this value owns; moving the value doesn't move their contents
unsafe impl Send for ReportBatch {}
unsafe impl Sync for ReportBatch {}

impl ReportBatch {
    pub fn new() -> ReportBatch {
        // SAFETY: all fields are plain data, for which zeros are valid
        let mut batch = unsafe {
            ReportBatch {
                datagrams: vec![[0; BUFFER]; BATCH].into(),
                names: vec![zeroed(); BATCH].into(),
                pieces: vec![zeroed(); BATCH].into(),
                received: vec![zeroed(); BATCH].into(),
                count: 0,
            }
        };
        for at in 0..BATCH {
            batch.pieces[at] = libc::iovec { iov_base: batch.datagrams[at].as_mut_ptr().cast(), iov_len: BUFFER };
            let header = &mut batch.received[at].msg_hdr;
            header.msg_iov = &mut batch.pieces[at];
            header.msg_iovlen = 1;
            header.msg_name = ptr::from_mut(&mut batch.names[at]).cast();
        }
        batch
    }

    /// Replace the batch by the next waiting datagrams, and return their number. Returns an error if reading fails.
    pub fn receive(&mut self, fd: RawFd) -> io::Result<usize> {
        self.count = 0;
        for message in &mut self.received {
            // The kernel overwrites the length with every datagram
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        }
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: every header points to buffers of the stated lengths, which live as long as self
        let count = unsafe { libc::recvmmsg(fd, self.received.as_mut_ptr(), BATCH as _, flags as _, ptr::null_mut()) };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) };
        }
        self.count = count as usize;
        Ok(self.count)
    }

    /// Return datagram `at` of the batch, or None if there is none.
    pub fn datagram(&self, at: usize) -> Option<&[u8]> {
        let length = self.received[..self.count].get(at)?.msg_len as usize;
        Some(&self.datagrams[at][..length.min(BUFFER)])
    }

    /// Return the address of the sender of datagram `at`.
    pub fn source(&self, at: usize) -> Option<IpAddr> {
        let name = self.names[..self.count].get(at)?;
        Some(socket_address(name)?.0)
    }
}

impl Default for ReportBatch {
    fn default() -> ReportBatch {
        ReportBatch::new()
    }
}
