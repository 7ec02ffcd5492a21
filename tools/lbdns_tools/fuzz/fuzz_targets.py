"""Lists the fuzz targets, defines their interface, and runs or shrinks inputs.

This module does not import any target, because targets must be imported while instrumentation is active.
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
    """The attributes and functions that a fuzz target's module must define."""

    SECONDS: float  # CPU seconds that one input may take, instrumented
    MAX_LENGTH: int  # bytes of an input
    WORDS: tuple[bytes, ...]  # byte strings from which inputs are built

    def seeds(self) -> Mapping[str, bytes]:
        """Return the initial inputs, keyed by name. The project's own encoders and dnspython create the initial
        inputs."""

    def check(self, data: bytes) -> None:
        """Run the code under test on one input. Raises an exception if the code misbehaves."""

    def mutate(self, data: bytes, max_size: int, chance: random.Random, bytewise: Mutator) -> bytes:
        """Return a mutation of ``data`` that is still structured like an input and has at most ``max_size`` bytes."""


#: The part of dnspython that reads master files; its messages are only used for checking
DNSPYTHON: Final = ("dns.zonefile", "dns.tokenizer", "dns.rdata", "dns.rdtypes", "dns.name", "dns.ttl", "dns.grange")

#: The packages whose branches guide the search, by target
TARGETS: Final[Mapping[str, tuple[str, ...]]] = {
    "report": ("lbdns", "lbdns_collector"),
    "zonefile": ("lbdns", *DNSPYTHON),
    "query": ("lbdns",),
}


class TooSlowError(AssertionError):
    """The error raised if an input takes more CPU time than its target allows."""


def load_target(name: str) -> FuzzTarget:
    return cast(FuzzTarget, importlib.import_module(f"lbdns_tools.fuzz.{name}_target"))


def run_target(target: FuzzTarget, data: bytes) -> None:
    """Run the target's check on ``data``. Raises TooSlowError or any exception that the check raises."""
    began = time.thread_time()
    target.check(data)
    took = time.thread_time() - began
    if took > target.SECONDS:
        raise TooSlowError(f"the input took {took:.1f} s of CPU time; the limit is {target.SECONDS:g} s")


def shrink_input(target: FuzzTarget, data: bytes) -> bytes:
    """Return ``data`` reduced to the parts that reproduce its failure. Raises ValueError if ``data`` does not cause a
    failure.
    """
    expected = failure(target, data)
    if expected is None:
        raise ValueError("the input to shrink must fail, but does not")
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
    """Return the type and line number of the exception that an input causes, or None if it passes."""
    try:
        run_target(target, data)
    except Exception as error:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        return type(error).__name__, at.tb_lineno if at else 0
    return None
