"""Lists the fuzz targets, defines what a target must contain, and runs or shrinks an input.

This module imports no target: a target's code must be imported while instrumentation is active.
"""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

#: Changes bytes at random, to at most the given length: libFuzzer's own mutator, or a stand-in
Mutator = Callable[[bytes, int], bytes]


class FuzzTarget(Protocol):
    """The members that a target's module must define."""

    SECONDS: float  # CPU seconds that one input may take, instrumented
    MAX_LENGTH: int  # bytes of an input
    WORDS: tuple[bytes, ...]  # byte strings to build inputs from

    def seeds(self) -> Mapping[str, bytes]:
        """Return the initial inputs, keyed by name and made with the project's own encoders and dnspython."""

    def check(self, data: bytes) -> None:
        """Run the code on one input. Raises an exception if the code misbehaves."""

    def mutate(self, data: bytes, max_size: int, chance: random.Random, bytewise: Mutator) -> bytes:
        """Return a mutation of ``data`` of up to ``max_size`` bytes; mutations respect the structure of inputs."""


#: The part of dnspython that reads master files; its messages are only used for checking
DNSPYTHON: Final = ("dns.zonefile", "dns.tokenizer", "dns.rdata", "dns.rdtypes", "dns.name", "dns.ttl", "dns.grange")

#: The packages whose branches guide the search, by target
TARGETS: Final[Mapping[str, tuple[str, ...]]] = {
    "report": ("lbdns", "lbdns_collector"),
    "zonefile": ("lbdns", *DNSPYTHON),
    "query": ("lbdns",),
}


class TooSlowError(AssertionError):
    """An input took more CPU time than its target allows."""


def load_target(name: str) -> FuzzTarget:
    return cast(FuzzTarget, importlib.import_module(f"lbdns_tools.fuzz.{name}_target"))


def run_target(target: FuzzTarget, data: bytes) -> None:
    """Run the target's check on ``data``. Raises the exceptions of the check, or TooSlowError."""
    began = time.thread_time()
    target.check(data)
    took = time.thread_time() - began
    if took > target.SECONDS:
        raise TooSlowError(f"{took:.1f} s of CPU time, more than the limit of {target.SECONDS:g} s")


def shrink_input(target: FuzzTarget, data: bytes) -> bytes:
    """Return ``data`` without the parts that are not needed to reproduce its failure.

    Raises ValueError if ``data`` does not fail.
    """
    expected = failure(target, data)
    if expected is None:
        raise ValueError("this input does not fail")
    size = len(data)
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if failure(target, shorter) == expected:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def failure(target: FuzzTarget, data: bytes) -> tuple[str, int] | None:
    """Return the type and the line of the error that an input raises, or None if it raises none."""
    try:
        run_target(target, data)
    except Exception as error:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        return type(error).__name__, at.tb_lineno if at else 0
    return None
