"""Writes log lines in a thread, so that a slow, stopped or missing reader of the log cannot delay the program.

The queue of lines is bounded. If a line does not fit into the queue or cannot be written, it is dropped and counted.
When writing succeeds again, one line reports the number of lost lines.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO

MAX_LINES: Final = 10_000  # lines that may wait
MAX_BYTES: Final = 2 * 2**20  # bytes of all waiting lines
#: Bytes per write: up to this size (PIPE_BUF), a pipe that is ready takes all bytes, and the kernel does not mix the
#: writes of several processes
AT_ONCE: Final = 4096
STEP: Final = 0.1  # s between checks whether to end while the reader does not read
CLOSE_PATIENCE: Final = 1.0  # s for the last lines to be written when the program ends
STUCK_PATIENCE: Final = 0.1  # s instead if nothing could be written for CLOSE_PATIENCE
JOIN_PATIENCE: Final = 1.0  # s for the thread to end, if a write blocks although poll(2) excluded this
MAX_PARTIAL: Final = 2**16  # characters of an incomplete line

_writers: weakref.WeakSet[LogWriter] = weakref.WeakSet()  # of this process


class LogWriter:
    """A writer that queues lines, and writes them to a stream in a thread.

    The first queued line starts the thread.

    All methods are thread-safe; only ``close`` and ``end_thread`` wait. The thread ends before each fork. After the
    fork, the child process has an empty queue, and each process starts a new thread as soon as it has lines to write.
    """

    def __init__(self, stream: TextIO, describe: Callable[[int, str], str]) -> None:
        """``describe`` returns a line that reports the number of lost lines and the reason for the loss."""
        self._stream, self._describe = stream, describe
        self._descriptor = _descriptor_of(stream)
        self.reset()
        _writers.add(self)

    def reset(self) -> None:
        """Discard all lines, threads and locks, because they belong to the parent process."""
        self.lost = 0  # lines that were dropped or could not be written
        self._changed = threading.Condition()
        self._waiting_lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._overflowed_lines = 0  # lines dropped since the queue became full; all are dropped until it is empty
        self._full_at = 0.0  # monotonic seconds when it became full
        self._unreported_lines = 0  # other lost lines; they come before the waiting ones
        self._reason = ""  # for the latter
        self._failing = False  # the last write failed; the next line causes the next attempt
        self._log_text = b""  # the lines being written, without the bytes that have been written
        self._written_lines = self._reported_lines = 0  # its lines, and the lost lines that it reports
        self._torn = False  # the last line was written in part
        self._since = 0.0  # monotonic seconds of the last write, or when the oldest line was put
        self._thread: threading.Thread | None = None
        self._stopping = False

    def put(self, line: str) -> None:
        """Queue a line, or count it as lost if the queue is full."""
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        with self._changed:
            full = len(self._waiting_lines) >= MAX_LINES or self._waiting_bytes + len(data) > MAX_BYTES
            # Until the queue is empty: one report of many lost lines says more than a report for every few
            if self._overflowed_lines or (full and self._waiting_lines):
                self._full_at = self._full_at if self._overflowed_lines else time.monotonic()
                self._overflowed_lines += 1
                self.lost += 1
                return
            if not self._has_work:
                self._since = time.monotonic()
            self._waiting_lines.append(data)
            self._waiting_bytes += len(data)
            self._start_thread()
            self._changed.notify_all()

    def close(self) -> None:
        """Give the thread a limited time to write the waiting lines, and then end it."""
        begin = time.monotonic()
        with self._changed:
            self._start_thread()
            while self._thread is not None and self._has_work:
                until = min(begin + CLOSE_PATIENCE, max(begin + STUCK_PATIENCE, self._since + CLOSE_PATIENCE))
                if (left := until - time.monotonic()) <= 0:
                    break
                self._changed.wait(left)
        if self._thread is None:  # it could not be started
            while self._has_work and self._write_few(begin + CLOSE_PATIENCE):
                pass
        self.end_thread()

    def end_thread(self) -> None:
        """End the thread without writing the waiting lines.

        A call to ``start_thread`` or the next line starts another thread.
        """
        with self._changed:
            thread, self._stopping = self._thread, True
            self._changed.notify_all()
        if thread is not None:
            thread.join(JOIN_PATIENCE)

    def start_thread(self) -> None:
        """If lines are waiting, start a thread."""
        with self._changed:
            self._start_thread()

    def _start_thread(self) -> None:
        # While the interpreter ends, a new thread never runs, and starting it would wait for it forever
        if self._thread is None and self._has_work and not sys.is_finalizing():
            self._stopping = False
            # A daemon thread: a reader that has stopped must not keep the program from ending
            self._thread = threading.Thread(target=self._run, name="log", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the limit on threads is reached, or the interpreter ends; the next line tries again
                self._thread = None

    @property
    def _has_work(self) -> bool:
        return bool(
            self._waiting_lines
            or self._log_text
            or self._overflowed_lines
            or (self._unreported_lines and not self._failing)
        )

    # The methods below run in the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._stopping and not self._has_work:
                    self._changed.wait()
                if self._stopping:
                    self._thread = None
                    self._changed.notify_all()
                    return
            self._write_few()

    def _write_few(self, deadline: float = float("inf")) -> bool:
        """Write some bytes.

        Return False if the deadline passes or the thread must end before the stream is ready.
        """
        if not self._log_text:
            with self._changed:
                self._take_lines()
        if not self._is_ready(deadline):
            return False
        try:
            written = self._write(self._log_text[:AT_ONCE])
        except BlockingIOError:
            written = 0
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self._fail(getattr(error, "strerror", None) or str(error))
            return True
        with self._changed:
            self._torn = not self._log_text[:written].endswith(b"\n") if written else self._torn
            self._log_text = self._log_text[written:]
            self._since = time.monotonic()
            if not self._log_text:
                self._failing = False
                self._unreported_lines -= self._reported_lines
            self._changed.notify_all()
        return True

    def _take_lines(self) -> None:
        """Build the next text from the report about lost lines (if any) and the next waiting lines."""
        if self._overflowed_lines and not self._waiting_lines:
            seconds = time.monotonic() - self._full_at
            self._reason = f"standard error was read too slowly for {seconds:.0f} s"
            self._unreported_lines += self._overflowed_lines
            self._overflowed_lines = 0
        self._reported_lines, self._written_lines = self._unreported_lines, 0
        if self._unreported_lines:
            self._log_text = f"{self._describe(self._unreported_lines, self._reason)}\n".encode(
                "utf-8", "backslashreplace"
            )
        if self._torn:
            self._log_text = b"\n" + self._log_text
        while self._waiting_lines and (
            not self._written_lines or len(self._log_text) + len(self._waiting_lines[0]) <= AT_ONCE
        ):
            line = self._waiting_lines.popleft()
            self._log_text += line
            self._written_lines += 1
            self._waiting_bytes -= len(line)

    def _fail(self, reason: str) -> None:
        with self._changed:
            self.lost += self._written_lines
            self._unreported_lines += self._written_lines
            self._reason, self._failing = reason, True
            self._log_text = b""
            self._changed.notify_all()

    def _is_ready(self, deadline: float) -> bool:
        """Wait until writing does not block. Return False if the deadline passes or the thread must end."""
        if self._descriptor < 0:
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while True:
            if poll.poll(STEP * 1000):
                return True
            if self._stopping or time.monotonic() >= deadline:
                return False

    def _write(self, data: bytes) -> int:
        if self._descriptor >= 0:
            return os.write(self._descriptor, data)
        self._stream.write(data.decode("utf-8", "replace"))
        self._stream.flush()
        return len(data)


class QueuedStream(io.TextIOBase):
    """A replacement for ``sys.stderr`` that queues tracebacks and other printed messages in a writer, line by line."""

    def __init__(self, stream: TextIO, writer: LogWriter) -> None:
        self.replaced = stream
        self._writer = writer
        self._partial = ""  # the incomplete last line

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read-only
        return "utf-8"

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.replaced.isatty()

    def fileno(self) -> int:
        return self.replaced.fileno()

    def write(self, text: str) -> int:
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            self._writer.put(line)
        if len(self._partial) > MAX_PARTIAL:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Queue the text after the last newline, if there is any. This method does not wait until the text is
        written."""
        if self._partial:
            self._writer.put(self._partial)
            self._partial = ""


def _descriptor_of(stream: TextIO) -> int:
    """Return the stream's file descriptor, or -1 if it has none, which happens in tests."""
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return -1


def lost_lines() -> int:
    """Return the number of lines that this process has dropped or could not write."""
    return sum(writer.lost for writer in tuple(_writers))


def end_threads() -> None:
    """End the threads of all writers, because the process is about to fork or to execute another program."""
    for writer in tuple(_writers):
        writer.end_thread()


def start_threads() -> None:
    """Start the threads of all writers that have lines waiting."""
    for writer in tuple(_writers):
        writer.start_thread()


def _reset_all() -> None:
    for writer in tuple(_writers):
        writer.reset()


os.register_at_fork(before=end_threads, after_in_parent=start_threads, after_in_child=_reset_all)
