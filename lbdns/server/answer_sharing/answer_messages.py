"""The messages in which DNS servers state their answers to each other over a bus, as bodies of signed messages. Pure.

Each server publishes several messages per second under one subject, and numbers them, also while it answers nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

PURPOSE: Final = "answer counts"  # of the keys that sign these messages
SUBJECT: Final = "lbdns.answers"
MAX_SKEW: Final = 30.0  # seconds between the clocks of two servers, as for reports
MAX_LENGTH: Final = 512 * 1024  # bytes; NATS servers accept 1 MB, unless they are configured otherwise
MAX_COUNTS: Final = 1000  # counts in one message; with the longest names, these are some 300 kB
MAX_NAME: Final = 255  # characters; longer names of pools, policies, members and servers do not count
MAX_SERVERS: Final = 100  # in one message, and that one server hears
MAX_SECONDS: Final = 5.0  # that one message covers
MAX_RATE: Final = 1_000_000  # answers/s of one server; no server reaches a quarter of it

#: Pool, policy and member's full name -> number of answers
AnswerCounts = Mapping[tuple[str, str, str], int]


@dataclass(frozen=True, slots=True)
class AnswerMessage:
    """A server's answers in the ``seconds`` seconds before the message.

    ``boot`` is random, and identifies a run of the server. ``heard`` lists the runs of all servers from which this
    server has received messages lately: a message that contains the receiver's own number is no recording from before
    the receiver's start.
    """

    server: str  # host name
    boot: int
    seq: int  # from 1
    time: float  # Unix seconds, when it was sent
    seconds: float
    heard: tuple[int, ...] = ()
    counts: AnswerCounts = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """Return the message as plain data."""
        return {
            "server": self.server,
            "boot": self.boot,
            "seq": self.seq,
            "time": self.time,
            "seconds": self.seconds,
            "heard": list(self.heard),
            "counts": [[*key, count] for key, count in self.counts.items()],
        }


def read_answer_message(body: Mapping[Any, Any]) -> AnswerMessage:
    """Convert the result of ``AnswerMessage.body`` back. Raises ValueError if the body is not valid."""
    try:
        heard, counts = body["heard"], body["counts"]
        if type(heard) is not list or type(counts) is not list or len(heard) > MAX_SERVERS or len(counts) > MAX_COUNTS:
            raise ValueError("a list is missing or too long")
        message = AnswerMessage(
            _name(body["server"]),
            _number(body["boot"]),
            _number(body["seq"]),
            _finite(body["time"]),
            _finite(body["seconds"]),
            tuple(_number(boot) for boot in heard),
            {(_name(pool), _name(policy), _name(member)): _number(n) for pool, policy, member, n in counts},
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a valid message: {error!r}") from None
    if not 0 <= message.seconds <= MAX_SECONDS:
        raise ValueError(f"{message.seconds!r} s is not a valid period")
    return message


def in_messages(counts: AnswerCounts) -> Iterator[AnswerCounts]:
    """Split ``counts`` into parts that fit into one message each; without counts, yield one empty part."""
    items = iter(counts.items())
    yield dict(islice(items, MAX_COUNTS))
    while part := dict(islice(items, MAX_COUNTS)):
        yield part


def _name(value: Any) -> str:
    if type(value) is not str or len(value) > MAX_NAME:
        raise ValueError("not a valid name")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("not a valid number")
    return value


def _finite(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError("not a finite number")
    return float(value)
