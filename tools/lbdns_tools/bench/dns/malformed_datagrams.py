"""Malformed datagrams of many kinds, and questions for names that do not exist; the same for the same seed."""

from __future__ import annotations

import random
import socket
import string
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from lbdns_tools.bench.dns.latency_prober import query_wire
from lbdns_tools.bench.measured_processes import MeasuredProcess, running

PREPARED: Final = 4096  # different datagrams of a flood
PIECE: Final = 64  # datagrams sent between two readings of the clock
LABEL: Final = 63  # octets (RFC 1035 2.3.4)
_GOOD: Final = query_wire("best.hobbit")
_PLAIN: Final = query_wire("best.hobbit", edns=False)
_HEADER: Final = struct.Struct("!HHHHHH")


def _header(chance: random.Random, flags: int = 0, counts: tuple[int, int, int, int] = (1, 0, 0, 0)) -> bytes:
    return _HEADER.pack(chance.getrandbits(16), flags, *counts)


def _flipped(chance: random.Random) -> bytes:
    made = bytearray(_GOOD)
    for _ in range(chance.randrange(1, 6)):
        made[chance.randrange(2, len(made))] = chance.getrandbits(8)
    return bytes(made)


def _any_counts(chance: random.Random) -> bytes:
    counts = [chance.choice((0, 1, 2, 255, 65535)) for _ in range(4)]
    return _header(chance, 0, (counts[0], counts[1], counts[2], counts[3])) + _PLAIN[12:]


def _pointers(chance: random.Random) -> bytes:
    """A name that is a compression pointer: to itself, forward, or back into the header."""
    targets = (12, 14, 13, chance.randrange(0, 1 << 14))
    return _header(chance) + struct.pack("!H", 0xC000 | chance.choice(targets)) + b"\0\1\0\1"


def _long_name(chance: random.Random) -> bytes:
    labels = b"".join(bytes([LABEL]) + chance.randbytes(LABEL) for _ in range(chance.randrange(4, 20)))
    return _header(chance) + labels + b"\0\0\1\0\1"


def _bad_opt(chance: random.Random) -> bytes:
    """Two OPT records, or one with an owner name, cut short, or with an option longer than the record."""
    opt = _GOOD[-11:]
    option = struct.pack("!HH", chance.getrandbits(16), chance.choice((1, 200, 65535))) + chance.randbytes(8)
    filled = opt[:-2] + struct.pack("!H", len(option)) + option
    many = _header(chance, 0, (1, 0, 0, 2)) + _PLAIN[12:]
    one = _header(chance, 0, (1, 0, 0, 1)) + _PLAIN[12:]
    return chance.choice((many + opt + opt, one + filled, one + b"\1a" + opt, one + opt[:-1]))


KINDS: Final[dict[str, Callable[[random.Random], bytes]]] = {
    "noise": lambda chance: chance.randbytes(chance.randrange(0, 600)),
    "cut short": lambda chance: _GOOD[: chance.randrange(len(_GOOD))],
    "bits flipped": _flipped,
    "any flags": lambda chance: _header(chance, chance.getrandbits(16)) + _PLAIN[12:],
    "any counts": _any_counts,
    "pointers": _pointers,
    "name too long": _long_name,
    # A label whose first two bits are 01 or 10, which are not in use (RFC 6891 section 5)
    "odd label": lambda chance: (
        _header(chance) + bytes([chance.choice((0x40, 0x80)) | chance.getrandbits(6)]) + _PLAIN[13:]
    ),
    "trailing octets": lambda chance: _PLAIN + chance.randbytes(chance.randrange(1, 1200)),
    "bad OPT": _bad_opt,
    "response": lambda chance: _header(chance, 0x8400) + _PLAIN[12:],
}


def datagrams(seed: int, count: int = PREPARED) -> list[bytes]:
    """Return malformed datagrams, all kinds in turn."""
    chance = random.Random(seed)
    kinds = list(KINDS.values())
    return [kinds[number % len(kinds)](chance) for number in range(count)]


TYPES: Final = ("A", "AAAA", "TXT", "MX", "SRV", "NS", "SOA", "CAA", "DS", "ANY", "HTTPS", "PTR")


def questions(seed: int, count: int) -> Iterator[tuple[str, str]]:
    """Yield random names, inside and outside the zone, each with one of TYPES."""
    chance = random.Random(seed)
    letters = string.ascii_letters + string.digits + "-_"
    for _ in range(count):
        labels = ["".join(chance.choices(letters, k=chance.randrange(1, 40))) for _ in range(chance.randrange(1, 4))]
        end = chance.choice(("hobbit", "hobbit", "best.hobbit", "round.robin.hobbit", "example.net"))
        yield ".".join((*labels, end)), chance.choice(TYPES)


def flooding(
    port: int, core: int, seed: int, seconds: float, log: Path, rate: float = 0.0
) -> AbstractContextManager[MeasuredProcess]:
    """Run a process that sends malformed datagrams and then logs their number, for the length of a with statement."""
    command = [sys.executable, "-m", __spec__.name, *map(str, (port, seed, seconds, rate))]
    return running("flood", command, core, log)


def send(port: int, seed: int, seconds: float, rate: float = 0.0) -> int:
    """Send malformed datagrams for ``seconds``, at most ``rate``/s (0: unlimited), and return their number."""
    prepared = datagrams(seed)
    sent, begin = 0, time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        address = ("127.0.0.1", port)
        sock.setblocking(False)
        while (now := time.monotonic() - begin) < seconds:
            if rate and sent > now * rate:
                time.sleep(min(PIECE / rate, 0.1))
                continue
            for _ in range(PIECE):
                try:
                    sock.sendto(prepared[sent % PREPARED], address)
                except BlockingIOError:
                    continue
                except ConnectionRefusedError:
                    break
                sent += 1
    return sent


if __name__ == "__main__":  # run by ``flooding`` with PORT SEED SECONDS RATE
    print(send(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))
