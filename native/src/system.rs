//! System calls of a thread that answers queries, which the standard library lacks.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::{mem, ptr};

const CAPABILITY_VERSION: u32 = 0x2008_0522; // linux/capability.h

/// A counter of the kernel that is readable until it is cleared (eventfd(2)).
pub struct EventFd(File);

impl EventFd {
    pub fn new() -> io::Result<EventFd> {
        // SAFETY: the call has no pointers; a descriptor that it returns has no other owner
        unsafe {
            let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(EventFd(OwnedFd::from_raw_fd(fd).into()))
        }
    }

    pub fn signal(&self) {
        // Fails only if 2^64 signals wait
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    pub fn clear(&self) {
        // Fails if there is no signal
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Return a duplicate of a descriptor, which the caller owns. Returns an error if there are no descriptors left.
pub fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call has no pointers; the new descriptor has no other owner
    unsafe {
        let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0);
        if copy < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(copy))
    }
}

/// Wait until one of the descriptors is readable, and return which of them are.
pub fn wait_for<const N: usize>(descriptors: [RawFd; N]) -> [bool; N] {
    let mut polled = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: the array outlives the call. If the call fails, the caller finds nothing to read, and waits again
    unsafe { libc::poll(polled.as_mut_ptr(), N as _, -1) };
    polled.map(|one| one.revents != 0)
}

/// Return the time of `CLOCK_MONOTONIC` in seconds, as Python's `time.monotonic` does.
pub fn monotonic() -> f64 {
    // SAFETY: zeros are valid, and the call writes only the structure
    let time = unsafe {
        let mut time: libc::timespec = mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
        time
    };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Leave all signals to the other threads of the process.
pub fn block_signals() {
    // SAFETY: the calls write only the set
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, ptr::null_mut());
    }
}

/// Give up every capability of the calling thread, unless the process runs as root.
///
/// The capabilities of root end in all threads when the process gives up root's user ID. This would fail in a thread
/// that has given them up already.
pub fn give_up_capabilities() {
    let header: [u32; 2] = [CAPABILITY_VERSION, 0];
    let nothing = [0u32; 6];
    // SAFETY: both arrays have the layout of linux/capability.h, and outlive the call
    unsafe {
        if libc::geteuid() != 0 {
            libc::syscall(libc::SYS_capset, header.as_ptr(), nothing.as_ptr());
        }
    }
}
