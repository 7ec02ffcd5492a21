"""Floods of malformed input on every port. Meanwhile, no query may be lost, and all members must stay usable."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from lbdns_shared.report import NO_KEY_ID, NO_TAG, Report, encode
from lbdns_tools.bench.dns import malformed_flood
from lbdns_tools.faults.background_thread import background_thread
from lbdns_tools.faults.fault import Fault, Limits
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.prober import TIMELY_S, Prober, judge, tcp_is_answered

RATE: Final = 1000.0  # malformed messages/s
SECONDS: Final = 8.0
QUICK_SECONDS: Final = 4.0
PREPARED: Final = 2000  # different messages of a flood

Message = Callable[[Random], bytes]
Send = Callable[[bytes], object]


def datagram_report(chance: Random) -> bytes:
    """Return a malformed, truncated or forged report, or one from an unknown host."""
    host = chance.choice(("frodo", "gandalf", "sauron", "a" * 60))
    report = encode(Report(host, chance.getrandbits(60), 1, time.time(), 1.0, {"run_queue": 1.0}))
    kind = chance.randrange(7)
    if kind == 0:
        return chance.randbytes(chance.randrange(0, 1500))
    if kind == 1:
        return report[: chance.randrange(len(report))]
    if kind == 2:
        return report[:4] + NO_KEY_ID + report[8:-16] + NO_TAG
    if kind == 3:
        return report[:-16] + chance.randbytes(16)
    if kind == 4:
        return report[:8] + bytes((chance.getrandbits(8),)) + report[9:]
    if kind == 5:
        return b"LBR1" + chance.randbytes(4) + b"\x05frodo" + b"\x91" * 500 + NO_TAG  # deeply nested msgpack
    return report + bytes(1500)


def http_request(chance: Random) -> bytes:
    """Return a malformed HTTP request."""
    return chance.choice((
        chance.randbytes(200), b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 500 + b"\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\x00\x1b[31m HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ))  # fmt: skip


def tcp_message(chance: Random) -> bytes:
    """Return a malformed DNS message for TCP. Its length prefix may also be wrong."""
    message = chance.choice(list(malformed_flood.KINDS.values()))(chance)
    length = chance.choice((len(message), 0, 65535, len(message) // 2))
    return length.to_bytes(2, "big") + message


def control_line(chance: Random) -> bytes:
    """Return a malformed command line for the control socket."""
    return chance.choice((
        chance.randbytes(100) + b"\n", b"{}\n", b"[" * 5000 + b"\n", b'{"command": 5}\n', b"x" * 100_000 + b"\n",
        b'{"command": "drain"}\n', b'{"command": "drain", "member": {"a": 1}}\n',
        b"null\n", b'{"command": "nothing"}\n',
        json.dumps({"command": "weight", "member": "frodo", "factor": -1e300}).encode() + b"\n",
    ))  # fmt: skip


@contextlib.contextmanager
def flood(send: Send, message: Message, chance: Random) -> Iterator[list[int]]:
    """Send RATE messages/s in a thread for the duration of a with statement.

    Yields a list whose only item is the number of messages sent.
    """
    prepared = [message(chance) for _ in range(PREPARED)]
    sent = [0]

    def run(over: threading.Event) -> None:
        begin = time.monotonic()
        while not over.is_set():
            while sent[0] < RATE * (time.monotonic() - begin) and not over.is_set():
                with contextlib.suppress(OSError):
                    send(prepared[sent[0] % PREPARED])
                sent[0] += 1
            over.wait(0.01)

    with background_thread("flood", run):
        yield sent


def to_udp(port: int) -> Send:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    return lambda data: sock.sendto(data, ("127.0.0.1", port))


def to_stream(connect: Callable[[], socket.socket]) -> Send:
    """Return a function that sends data over a new connection and reads the beginning of any response."""

    def send(data: bytes) -> None:
        with connect() as sock:
            sock.settimeout(0.01)
            sock.sendall(data)
            with contextlib.suppress(TimeoutError):
                sock.recv(4096)

    return send


def to_tcp(port: int) -> Send:
    return to_stream(lambda: socket.create_connection(("127.0.0.1", port), 1))


def to_unix(path: str) -> Send:
    def connect() -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(1)
        sock.connect(path)
        return sock

    return to_stream(connect)


def flooded(
    sender: Callable[[FaultBed], Send], message: Message, needs_health: bool = True
) -> Callable[[FaultBed], None]:
    def run(bed: FaultBed) -> None:
        send = sender(bed)
        with Prober(lambda: bed.farm.get("/healthz", TIMELY_S)[0] == 200) as health:
            bed.begin()
            with flood(send, message, bed.chance) as sent:
                bed.keep(QUICK_SECONDS if bed.quick else SECONDS)
                bed.expect(bed.all_usable(), "not all members are usable during the flood")
            bed.ease()
        bed.notes["malformed"] = sent[0]
        if needs_health:
            judge(bed, health, "/healthz")
        bed.recovers(bed.all_usable, "all members are usable")
        bed.recovers(bed.is_healthy, "/healthz responds with 200")
        bed.recovers(tcp_is_answered(bed), "TCP is answered")

    return run


def dns_datagram(chance: Random) -> bytes:
    return chance.choice(list(malformed_flood.KINDS.values()))(chance)


_HOLDS: Final = "no query is lost; members stay usable; memory use and log size stay within limits"
FAULTS: Final = (
    Fault("flood.dns-udp", f"{RATE:g} malformed queries/s arrive over UDP", _HOLDS,
          flooded(lambda bed: to_udp(bed.farm.port), dns_datagram), quick=True),
    Fault("flood.dns-tcp", "malformed queries arrive over TCP, each on a separate connection", _HOLDS,
          flooded(lambda bed: to_tcp(bed.farm.port), tcp_message)),
    Fault("flood.reports", f"{RATE:g} reports/s are malformed, forged or from unknown hosts", _HOLDS,
          flooded(lambda bed: to_udp(bed.farm.report_port), datagram_report), quick=True),
    Fault("flood.http", "malformed HTTP requests arrive, each on a separate connection", _HOLDS,
          flooded(lambda bed: to_tcp(bed.farm.http_port), http_request), Limits(log_lines=100), quick=True),
    Fault("flood.control", "malformed commands arrive at the control socket", _HOLDS,
          flooded(lambda bed: to_unix(str(bed.farm.control_path)), control_line), Limits(log_lines=100)),
)  # fmt: skip
