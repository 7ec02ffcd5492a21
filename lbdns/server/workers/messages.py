"""Messages with file descriptors over a Unix stream socket.

A message consists of a length, a descriptor count and a payload. Descriptors are sent with the first bytes of their
message (unix(7), SCM_RIGHTS), so all descriptors have arrived when the message is complete.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

AT_ONCE: Final = 250  # descriptors in one sendmsg; the kernel's limit is 253 (SCM_MAX_FD)
MAX_PAYLOAD: Final = 2**30  # bytes; a farm with a zone of a million names has about 300 MB
_HEADER: Final = struct.Struct("!II")
_PIECE: Final = 2**18  # bytes read at once
_READS: Final = 16  # reads per wake-up; then other sockets have their turn


class HasDescriptor(Protocol):
    """A socket, or anything else with a file descriptor."""

    def fileno(self) -> int:
        """Return the descriptor."""


class MessageReader:
    """Reassembles messages from a stream that arrives in pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._descriptors: deque[int] = deque()

    def feed(self, data: bytes, descriptors: Iterable[int]) -> Iterator[tuple[bytes, list[int]]]:
        """Yield each message that is complete once ``data`` has arrived. Raises ValueError if the data is invalid."""
        self._buffer += data
        self._descriptors.extend(descriptors)
        while len(self._buffer) >= _HEADER.size:
            length, count = _HEADER.unpack_from(self._buffer)
            if length > MAX_PAYLOAD:
                raise ValueError(f"a message of {length} bytes exceeds the limit")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            if count > len(self._descriptors):
                raise ValueError(f"a message lacks {count - len(self._descriptors)} of its descriptors")
            payload = bytes(memoryview(self._buffer)[_HEADER.size : end])
            del self._buffer[:end]
            yield payload, [self._descriptors.popleft() for _ in range(count)]

    def close(self) -> None:
        """Close the descriptors of an incomplete message."""
        _close_all(self._descriptors)
        self._descriptors.clear()


def split_message(payload: bytes, descriptors: Sequence[int]) -> Iterator[tuple[bytes, Sequence[int]]]:
    """For each sendmsg call, yield the data, and the descriptors to send with the first byte."""
    data = _HEADER.pack(len(payload), len(descriptors)) + payload
    assert len(descriptors) <= AT_ONCE * len(data), "the message has too many descriptors for its length"
    at = 0
    for at, start in enumerate(range(0, len(descriptors), AT_ONCE), 1):
        yield data[at - 1 : at], descriptors[start : start + AT_ONCE]
    yield data[at:], ()


def send_piece(sock: socket.socket, data: bytes | memoryview, descriptors: Sequence[int]) -> int:
    """Call sendmsg once, and return the number of bytes sent. Raises OSError."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    return sock.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)


def receive_piece(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Call recvmsg once. Return the data (empty at EOF) and the descriptors, marked close-on-exec. Raises OSError."""
    size = array.array("i").itemsize
    flags = socket.MSG_CMSG_CLOEXEC
    data, ancillary, _, _ = sock.recvmsg(_PIECE, socket.CMSG_SPACE(AT_ONCE * size), flags)
    found = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(content[: len(content) - len(content) % size])
    return data, found.tolist()


class MessageChannel:
    """One end of a message connection in an event loop. Sending never blocks, because messages are queued.

    Descriptors are duplicated only for messages that must wait, so a process without free descriptors can still send.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_message: Callable[[bytes, list[int]], None],
        on_end: Callable[[], None],
        on_drained: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_end`` is called once, when the other end has closed the connection or sent invalid data.

        ``on_drained`` is called whenever the queue becomes empty.
        """
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._reader = MessageReader()
        self._on_message, self._on_end, self._on_drained = on_message, on_end, on_drained
        self._waiting: deque[tuple[memoryview, Sequence[int]]] = deque()
        self._drained = asyncio.Event()
        self.closed = False
        self._loop.add_reader(sock, self._read)

    @property
    def is_behind(self) -> bool:
        return bool(self._waiting)

    def send(self, payload: bytes, sockets: Sequence[HasDescriptor] = ()) -> None:
        """Send a message with ``sockets``, which the caller may then close. After ``close``, the method does nothing.

        If the message cannot be sent immediately and no descriptors are left to keep its sockets open, the connection
        breaks, because later messages depend on this message. ``on_end`` is then called later.
        """
        if self.closed:
            return
        numbers = [sock.fileno() for sock in sockets]
        pieces = deque((memoryview(data), attached) for data, attached in split_message(payload, numbers))
        try:
            while pieces and not self._waiting:
                data, descriptors = pieces[0]
                sent = send_piece(self._sock, data, descriptors)
                pieces.popleft()
                if sent < len(data):
                    pieces.appendleft((data[sent:], ()))
        except BlockingIOError:
            pass
        except OSError:
            return  # reading then ends as well, and calls on_end
        if pieces:
            self._queue(pieces)
        else:
            self._on_drained()

    def _queue(self, pieces: Iterable[tuple[memoryview, Sequence[int]]]) -> None:
        if not self._waiting:
            self._loop.add_writer(self._sock, self._write)
        try:
            for data, descriptors in pieces:
                duplicates: list[int] = []
                self._waiting.append((data, duplicates))
                for descriptor in descriptors:
                    duplicates.append(os.dup(descriptor))  # noqa: PERF401  # if one fails, all of them are closed
        except OSError:
            self.close()
            self._loop.call_soon(self._on_end)

    async def flush(self, patience: float) -> None:
        """Wait up to ``patience`` seconds until all messages have been sent or the connection has closed."""
        self._drained.clear()
        if self._waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._drained.wait()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._drained.set()
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        self._reader.close()
        for _, descriptors in self._waiting:
            _close_all(descriptors)
        self._waiting.clear()

    def _write(self) -> None:
        try:
            while self._waiting:
                data, descriptors = self._waiting[0]
                sent = send_piece(self._sock, data, descriptors)
                _close_all(descriptors)
                if sent < len(data):
                    self._waiting[0] = (data[sent:], ())
                else:
                    self._waiting.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._sock, self._write)
            return
        except OSError:
            # Reading then ends as well, and calls on_end
            for _, descriptors in self._waiting:
                _close_all(descriptors)
            self._waiting.clear()
        self._loop.remove_writer(self._sock)
        self._drained.set()
        self._on_drained()

    def _read(self) -> None:
        try:
            for _ in range(_READS):
                data, descriptors = receive_piece(self._sock)
                if not data:
                    break
                for payload, attached in self._reader.feed(data, descriptors):
                    self._on_message(payload, attached)
                    if self.closed:
                        return
            else:
                return
        except BlockingIOError:
            return
        except (OSError, ValueError):
            pass
        self.close()
        self._on_end()


def _close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
