//! A counter that can be waited for, in place of the kernel's.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use loom::sync::{Condvar, Mutex};

pub struct EventFd {
    is_readable: Mutex<bool>,
    changed: Condvar,
}

impl EventFd {
    pub fn new() -> io::Result<EventFd> {
        Ok(EventFd { is_readable: Mutex::new(false), changed: Condvar::new() })
    }

    pub fn signal(&self) {
        *self.is_readable.lock().unwrap() = true;
        self.changed.notify_all();
    }

    pub fn clear(&self) {
        *self.is_readable.lock().unwrap() = false;
    }

    pub fn is_readable(&self) -> bool {
        *self.is_readable.lock().unwrap()
    }

    /// Wait until the counter is readable, as poll(2) does.
    pub fn wait(&self) {
        let mut is_readable = self.is_readable.lock().unwrap();
        while !*is_readable {
            is_readable = self.changed.wait(is_readable).unwrap();
        }
    }
}

/// Returns 1 if the counter is readable, and 0 if not, because there is no descriptor.
impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        RawFd::from(self.is_readable())
    }
}
