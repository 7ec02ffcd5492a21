"""The targets, and what all of them offer. Imports none of them: what is to be instrumented must be imported late."""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast

#: Changes bytes at random to at most so many: libFuzzer's own mutator, or a stand-in.
Mutator = Callable[[bytes, int], bytes]


class Target(Protocol):
    """What a target's module has."""

    SECONDS: float  # CPU seconds that one input may take, instrumented
    MAX_LENGTH: int  # bytes of an input
    WORDS: tuple[bytes, ...]

    def seeds(self) -> Mapping[str, bytes]: ...

    def check(self, data: bytes) -> None: ...

    def mutate(self, data: bytes, max_size: int, chance: random.Random, bytewise: Mutator) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where a target is, and the packages whose branches guide the search."""

    module: str
    guided_by: tuple[str, ...]


#: What of dnspython reads master files; its messages are what the target checks with.
DNSPYTHON: Final = ("dns.zonefile", "dns.tokenizer", "dns.rdata", "dns.rdtypes", "dns.name", "dns.ttl", "dns.grange")

TARGETS: Final[Mapping[str, Place]] = {
    "report": Place("lbdns_tools.fuzz.report", ("lbdns", "lbdns_collector")),
    "zonefile": Place("lbdns_tools.fuzz.zonefile", ("lbdns", *DNSPYTHON)),
    "query": Place("lbdns_tools.fuzz.query", ("lbdns",)),
}


class TooSlowError(AssertionError):
    """One input took more processor time than any should."""


def load(name: str) -> Target:
    return cast(Target, importlib.import_module(TARGETS[name].module))


def run(target: Target, data: bytes) -> None:
    """Give ``data`` to the target. Raises what its check raises, and TooSlowError."""
    began = time.thread_time()
    target.check(data)
    took = time.thread_time() - began
    if took > target.SECONDS:
        raise TooSlowError(f"{took:.1f} s of processor time, limit {target.SECONDS:g} s")
