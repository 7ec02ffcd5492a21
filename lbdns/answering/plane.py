"""The plane: the implementation that answers common UDP queries, either in Python or in a faster native extension.

The plane creates the state that the fast path and the slow path share: the rate limiter, the retransmission cache, the
address family affinity cache and the current position in each plan. Sans-I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns import native_extension
from lbdns.answering.cookies import ServerCookies
from lbdns.answering.member_lists import ListCursor
from lbdns.answering.member_selection import FamilyAffinity, MemberSelector, PlanCursor, RetransmissionCache
from lbdns.answering.message_writer import EMPTY_BODY, precompiled_variant, truncated
from lbdns.answering.query_shapes import COOKIE_QUERY_SHAPES, FIRST_COOKIE_KIND, KINDS, QUERY_PARAMETERS, QUERY_SHAPES
from lbdns.answering.rate_limiter import RateLimiter
from lbdns.config.client_limit_sections import RateLimitConfig
from lbdns.config.server_section import PlaneName
from lbdns.policies.plan import Plan
from lbdns_shared.errors import LbdnsError

if native_extension.AVAILABLE:
    import lbdns_native

INTERFACE: Final = native_extension.INTERFACE
STALE: Final = native_extension.STALE
AVAILABLE: Final = native_extension.AVAILABLE


class Plane:
    """The Python plane: complete, but slower than the native plane."""

    name = "python"

    def native_table(self, payload: int) -> lbdns_native.AnswerTable | None:
        """Return the native part of a new answer table, or None on the Python plane.

        ``payload`` is the maximum length in bytes of a query that the server accepts over UDP.
        """
        return None

    def datagram_batch(self) -> lbdns_native.DatagramBatch | None:
        """Return an object that answers single batches, at a time that the caller sets, or None if Python reads
        datagrams one at a time.
        """
        return None

    def rate_limiter(self, rules: RateLimitConfig, share: int) -> RateLimiter | lbdns_native.RateLimiter:
        """Return a rate limiter for one process; the kernel spreads queries across ``share`` processes."""
        return RateLimiter(rules, share)

    def member_selector(self) -> MemberSelector:
        return MemberSelector(RetransmissionCache(), FamilyAffinity())

    def cookie_jar(self, secrets: Sequence[bytes]) -> ServerCookies | lbdns_native.ServerCookies:
        return ServerCookies(secrets)


PYTHON_PLANE: Final = Plane()


class NativePlanCursor(PlanCursor):
    """A plan cursor whose counter is stored in the native table, where the native fast path advances it."""

    __slots__ = ("cursor", "store")

    def __init__(self, members: int, store: lbdns_native.AnswerTable, affinity_window: float = 0.0) -> None:
        self.store = store
        self.cursor = store.add_cursor(affinity_window)
        super().__init__(members, self.cursor, affinity_window)

    def _begin(self, plan: Plan, usable: frozenset[int]) -> tuple[int, int]:
        super()._begin(plan, usable)
        return self.store.set_plan(self.cursor, plan.order, plan.repeat_from, tuple(usable))

    def next(self) -> int:
        return self.store.next(self.cursor)

    def _position(self) -> tuple[int, int]:
        return self.store.position(self.cursor)


class NativeListCursor(ListCursor):
    """A cursor for answers that name several members, whose counter and lists are stored in the native table."""

    __slots__ = ("store",)

    def __init__(
        self, members: int, store: lbdns_native.AnswerTable, affinity_window: float = 0.0, answers: int = 2
    ) -> None:
        self.store = store
        super().__init__(members, store.add_cursor(affinity_window, answers), affinity_window, answers)

    def _begin(self, plan: Plan, usable: frozenset[int]) -> tuple[int, int]:
        super()._begin(plan, usable)
        return self.store.set_plan(
            self.number, plan.order, plan.repeat_from, tuple(usable), plan.ranking, plan.probes, plan.light
        )

    def next(self) -> int:
        return self.store.next(self.number)

    @property
    def due(self) -> int:
        return self.store.due(self.number)

    def members(self, number: int) -> tuple[int, ...]:
        return tuple(self.store.members(self.number, number))

    def begins_usable(self, number: int) -> bool:
        return self.store.begins_usable(self.number, number)

    def _position(self) -> tuple[int, int]:
        return self.store.position(self.number)


class NativePlane(Plane):
    """The native plane: answers queries with the native extension's classes."""

    name = "native"

    def native_table(self, payload: int) -> lbdns_native.AnswerTable:
        shapes = [(*QUERY_PARAMETERS[kind], kind >= FIRST_COOKIE_KIND) for kind in range(KINDS)]
        variants = [precompiled_variant(truncated(EMPTY_BODY), *shape, payload) for shape in shapes]
        return lbdns_native.AnswerTable(QUERY_SHAPES, COOKIE_QUERY_SHAPES, variants)

    def datagram_batch(self) -> lbdns_native.DatagramBatch:
        return lbdns_native.DatagramBatch()

    def rate_limiter(self, rules: RateLimitConfig, share: int) -> lbdns_native.RateLimiter:
        exempt = [(str(network.network_address), network.prefixlen) for network in rules.exempt]
        limit = -(-rules.responses_per_second // share)
        return lbdns_native.RateLimiter(limit, rules.slip, rules.ipv4_prefix, rules.ipv6_prefix, exempt)

    def member_selector(self) -> MemberSelector:
        return MemberSelector(lbdns_native.RetransmissionCache(), lbdns_native.FamilyAffinity())

    def cookie_jar(self, secrets: Sequence[bytes]) -> lbdns_native.ServerCookies:
        return lbdns_native.ServerCookies(secrets)


class NativeMissingError(LbdnsError):
    """Raised if the configuration requires the native extension, but the extension is missing or was built for another
    version."""

    exit_status = 2


def choose_plane(requested: PlaneName) -> Plane:
    """Return the plane that the configuration requests; "auto" means the native plane if it is installed.

    An extension that was built for another version of lbdns counts as not installed. Raises NativeMissingError if the
    configuration requests the native plane, but that plane is not installed.
    """
    if requested == "native" and not AVAILABLE:
        raise NativeMissingError(
            f"[server] plane: {why_not_native(requested)}; build it with 'make native' (needs cargo), "
            'or set plane = "auto"'
        )
    return PYTHON_PLANE if requested == "python" or not AVAILABLE else NativePlane()


def why_not_native(requested: PlaneName) -> str:
    """Return why the native plane cannot be used, or is not requested; empty if ``choose_plane`` returns it."""
    if requested == "python":
        return '[server] plane is "python"'
    if AVAILABLE:
        return ""
    return f"the native extension {'was built for another version of lbdns' if STALE else 'is not installed'}"
