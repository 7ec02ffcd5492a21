"""The plane: which implementation answers usual UDP queries, Python or the native module, which is faster.

The plane creates everything that the fast path and the slow path share, so that both use one rate limit, one
retransmission cache, one family affinity and one place in each plan. Sans-I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from lbdns.answering.cookies import CookieJar, ServerCookies
from lbdns.answering.member_selection import CursorStore, FamilyAffinity, MemberSelector, RetransmissionCache
from lbdns.answering.message_writer import Variant
from lbdns.answering.rate_limiter import RateLimiter
from lbdns.config.client_limit_sections import RateLimitConfig


class NativeTable(CursorStore, Protocol):
    """The native module's copy of the precompiled responses and plans of an answer table."""

    def keep(self, key: bytes, cursor: int | None, family: int | None, kind: int, variants: Sequence[Variant]) -> None:
        """Add the responses of one kind to a question: one for each member of the cursor's plan, or one in all."""

    def forget(self) -> None:
        """Drop every response; plans stay."""

    def take_counts(self) -> list[tuple[bytes, int]]:
        """Return the queries answered since the last call, by question."""


class AnyRateLimiter(Protocol):
    """``RateLimiter``, or the native one."""

    @property
    def dropped(self) -> int: ...
    @property
    def cut(self) -> int: ...
    @property
    def last(self) -> str: ...
    def tick(self, now: float) -> None: ...
    def count(self, host: str, kind: bytes) -> int: ...
    def drops(self, over: int, host: str) -> bool: ...


#: A query that the batch did not answer: its bytes, the client's address, and where ``reply`` sends the response.
UnansweredQuery = tuple[bytes, tuple[Any, ...], Any]
#: A query taken for the query log: its bytes, the client's address, the response or None, seconds.
BatchSample = tuple[bytes, tuple[Any, ...], bytes | None, float]


class DatagramBatch(Protocol):
    """Receives, answers and sends the datagrams of one UDP socket, many with each system call."""

    def drain(
        self,
        fd: int,
        table: Any,
        limiter: Any,
        retransmissions: Any,
        affinity: Any,
        cookies: Any,
        now: float,
        wall: float,
        overloaded: bool,
    ) -> tuple[int, int, int, list[UnansweredQuery]]:
        """Answer the usual queries among up to ``Plane.batch_size`` waiting datagrams.

        Returns the queries read, the responses that the kernel refused, the queries shed because of ``overloaded``, and
        the queries for the slow path. ``now`` is in monotonic seconds, ``wall`` in Unix seconds. Raises OSError if
        receiving fails.
        """

    def reply(self, fd: int, peer: Any, response: bytes) -> bool:
        """Send the response to a query of an earlier batch. Returns whether the kernel accepted it."""

    def sample(self, part: float, seed: int) -> None:
        """Take this part of all queries (0 to 1) for the query log."""

    def take_samples(self) -> tuple[list[BatchSample], list[int]]:
        """Return the finished samples of the last batch, and the indexes of its unanswered queries that are taken."""


class Plane(Protocol):
    """Creates what the fast path and the slow path share."""

    name: str
    batch_size: int  # datagrams that one ``DatagramBatch.drain`` reads at most

    def native_table(self, payload: int) -> NativeTable | None:
        """Return the native part of a new answer table; None on the Python plane.

        ``payload`` is the longest query that we accept over UDP, in bytes.
        """

    def datagram_batch(self) -> DatagramBatch | None:
        """Return the buffers of one UDP socket; None if Python reads each datagram itself."""

    def rate_limiter(self, rules: RateLimitConfig, share: int) -> AnyRateLimiter:
        """Return a limiter for one of ``share`` processes over which the kernel spreads the queries."""

    def member_selector(self) -> MemberSelector: ...
    def cookie_jar(self, secrets: Sequence[bytes]) -> CookieJar: ...


class PythonPlane:
    """Python alone: complete, but slower."""

    name = "python"
    batch_size = 0

    def native_table(self, payload: int) -> NativeTable | None:
        return None

    def datagram_batch(self) -> DatagramBatch | None:
        return None

    def rate_limiter(self, rules: RateLimitConfig, share: int) -> AnyRateLimiter:
        return RateLimiter(rules, share)

    def member_selector(self) -> MemberSelector:
        return MemberSelector(RetransmissionCache(), FamilyAffinity())

    def cookie_jar(self, secrets: Sequence[bytes]) -> CookieJar:
        return ServerCookies(secrets)


PYTHON_PLANE: Plane = PythonPlane()
