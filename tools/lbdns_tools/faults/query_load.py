"""The measuring load: a process that sends queries at a steady rate from several ports and records every outcome.

The process (``python -m lbdns_tools.faults.query_load``) exits when its standard input is closed. A separate process
keeps the rate steady while the harness is busy with a fault. Each query has its own ID. The process resends an
unanswered query once from another port, as a resolver would. Before it checks for time-outs, the process reads all
answers that have arrived. Its own delays therefore do not count as lost queries.
"""

from __future__ import annotations

import contextlib
import json
import math
import select
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import IO, Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.measured_processes import take_priority
from lbdns_tools.faults.query_records import NO_MEMBER, RECORD, TIMEOUT, QueryRecord, unpack
from lbdns_tools.load.stub_dns_message import A, AnswerError, is_answer, query, question, read_answer

PORTS: Final = 16  # source ports; the kernel distributes them among the workers' sockets
AUTHORITATIVE: Final = 0x04  # in the third octet of a response (AA, RFC 1035 section 4.1.1)
CATCH_UP: Final = 50  # queries that are sent in a row at most after the process had to wait
LARGEST: Final = 4096  # octets of a response that are read
END_S: Final = 10.0  # s that the load process may take to end


@dataclass(slots=True)
class _Pending:
    sent: float
    tries: int
    asked: bytes


class LoadSender:
    """Sends queries for each of ``names`` in turn, and writes a QueryRecord for each query."""

    def __init__(self, port: int, rate: float, names: Sequence[str], members: Mapping[str, int]) -> None:
        """``rate`` is in queries/s. ``members`` maps each member's address to its position."""
        self._rate, self._members = rate, members
        self._asked = [question(name, A) for name in names]
        self._sockets = [_open(port) for _ in range(PORTS)]
        self._by_descriptor = {sock.fileno(): number for number, sock in enumerate(self._sockets)}
        chance = Random()
        self._ids = [chance.getrandbits(16) for _ in self._sockets]
        self._pending: dict[tuple[int, int], _Pending] = {}  # by the socket's number and the query's ID
        self._deadlines: deque[tuple[float, tuple[int, int]]] = deque()  # ascending: all time-outs are equally long
        self._done: list[bytes] = []

    def run(self, stop: IO[bytes], output: IO[bytes]) -> None:
        """Send queries until ``stop`` is closed, wait for the last answers, and write all records to ``output``."""
        poll = select.epoll()
        for sock in self._sockets:
            poll.register(sock, select.EPOLLIN)
        poll.register(stop, select.EPOLLIN)
        begin, number, is_over = time.monotonic(), 0, False
        while not is_over or self._pending:
            now = time.monotonic()
            late = 0
            while not is_over and begin + number / self._rate <= now and late < CATCH_UP:
                self._send(number, now)
                number += 1
                late += 1
            next_at = now + TIMEOUT / 10 if is_over else begin + number / self._rate
            for descriptor, _ in poll.poll(max(0.0, next_at - time.monotonic())):
                if descriptor in self._by_descriptor:
                    self._receive(self._by_descriptor[descriptor])
                else:
                    poll.unregister(stop)
                    is_over = True
            due = time.monotonic()
            for descriptor, _ in poll.poll(0):  # whatever has arrived before ``due``, however long this process waited
                if descriptor in self._by_descriptor:
                    self._receive(self._by_descriptor[descriptor])
            self._give_up(due)
            self._flush(output)

    def _send(self, number: int, now: float) -> None:
        self._send_try(number % PORTS, _Pending(now, 1, self._asked[number // PORTS % len(self._asked)]), now)

    def _send_try(self, port: int, pending: _Pending, now: float) -> None:
        ident = self._ids[port] = (self._ids[port] + 1) & 0xFFFF
        self._pending[port, ident] = pending
        self._deadlines.append((now + TIMEOUT, (port, ident)))
        for _ in range(2):  # the first attempt may report that an earlier query was refused
            with contextlib.suppress(OSError):
                self._sockets[port].send(query(ident, pending.asked))
                return

    def _receive(self, port: int) -> None:
        while True:
            try:
                message = self._sockets[port].recv(LARGEST)
            except BlockingIOError:
                return
            except OSError:
                continue  # refused: no process has the port open
            ident = int.from_bytes(message[:2], "big")
            pending = self._pending.get((port, ident))
            if pending is None or not is_answer(message, ident, pending.asked):
                continue
            del self._pending[port, ident]
            member = self._member(message, pending.asked)
            waited = time.monotonic() - pending.sent
            self._record(pending, waited, member)

    def _member(self, message: bytes, asked: bytes) -> int:
        """Return the position of the member that a response names, or NO_MEMBER if the response is wrong."""
        try:
            answer = read_answer(message, asked)
        except AnswerError:
            return NO_MEMBER
        if not message[2] & AUTHORITATIVE or len(answer.addresses) != 1:
            return NO_MEMBER
        return self._members.get(answer.addresses[0], NO_MEMBER)

    def _give_up(self, now: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now:
            _, key = self._deadlines.popleft()
            pending = self._pending.pop(key, None)
            if pending is None:
                continue
            if pending.tries == 1:
                pending.tries = 2
                self._send_try((key[0] + 1 + key[1] % (PORTS - 1)) % PORTS, pending, now)
            else:
                self._record(pending, math.inf, NO_MEMBER)

    def _record(self, pending: _Pending, waited: float, member: int) -> None:
        is_wrong = member == NO_MEMBER and math.isfinite(waited)
        self._done.append(QueryRecord(pending.sent, waited, pending.tries, member, is_wrong).packed())

    def _flush(self, output: IO[bytes]) -> None:
        output.write(b"".join(self._done))
        output.flush()
        self._done.clear()


def _open(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.connect(("127.0.0.1", port))
    return sock


class QueryLoad:
    """The load process, which runs from ``start`` to ``stop``, and the collected query records."""

    def __init__(self, port: int, rate: float, names: Sequence[str], members: Sequence[str]) -> None:
        """Each record's ``member`` is a position in ``members``, the list of the members' addresses."""
        self.rate = rate
        self.records: list[QueryRecord] = []
        options = {
            "port": port, "rate": rate, "names": list(names),
            "members": {address: number for number, address in enumerate(members)},
        }  # fmt: skip
        self._command = [sys.executable, "-m", __name__, json.dumps(options)]
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = threading.Thread(target=self._read, name="query-records", daemon=True)

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._reader.start()

    def stop(self) -> None:
        """Stop sending, and wait for the last answers. Raises LbdnsError if the load process has failed."""
        process = self._process
        if process is None:
            return
        assert process.stdin
        process.stdin.close()
        try:
            status = process.wait(END_S + 2 * TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        self._reader.join(END_S)
        self._process = None
        if status:
            raise LbdnsError(f"the load process exited with status {status}")

    def between(self, begin: float, end: float = math.inf) -> list[QueryRecord]:
        """Return the available records of queries that were sent between ``begin`` and ``end`` (monotonic seconds)."""
        return [record for record in list(self.records) if begin <= record.sent < end]

    def take(self) -> list[QueryRecord]:
        """Return the records collected since the last call, and discard them to save memory in long runs."""
        taken, self.records = self.records, []
        return taken

    def _read(self) -> None:
        assert self._process
        assert self._process.stdout
        output, rest = self._process.stdout, b""
        while data := output.read1(65536):  # type: ignore[attr-defined]
            data = rest + data
            whole = len(data) // RECORD.size * RECORD.size
            self.records.extend(unpack(data[:whole]))
            rest = data[whole:]


def main(options: str) -> None:
    given = json.loads(options)
    take_priority()  # as root: what else the machine does then delays no measurement
    LoadSender(given["port"], given["rate"], given["names"], given["members"]).run(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main(sys.argv[1])
