"""The native plane: the Rust module ``lbdns_native`` answers the usual UDP queries, if it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns.answering.answer_table import precompiled_variant
from lbdns.answering.cookies import CookieJar
from lbdns.answering.member_selection import MemberSelector
from lbdns.answering.message_writer import EMPTY_BODY, Variant, truncated
from lbdns.answering.plane import PYTHON_PLANE, AnyRateLimiter, DatagramBatch, NativeTable, Plane
from lbdns.answering.query_reader import Query
from lbdns.answering.query_shapes import COOKIE_QUERY_SHAPES, FIRST_COOKIE_KIND, KINDS, QUERY_SHAPES, query_parameters
from lbdns.config.client_limit_sections import RateLimitConfig
from lbdns.config.server_section import PlaneName
from lbdns_shared.errors import LbdnsError

try:
    import lbdns_native
except ImportError:  # the Python plane does everything without it
    lbdns_native = None  # type: ignore[assignment]

AVAILABLE: Final = lbdns_native is not None


class NativeMissingError(LbdnsError):
    """The configuration requires the native module, which is not installed."""

    exit_status = 2


def choose_plane(requested: PlaneName) -> Plane:
    """Return the plane that the configuration requests; "auto" is the native one if it is installed.

    Raises NativeMissingError if it requests the native plane without the module.
    """
    if requested == "native" and not AVAILABLE:
        raise NativeMissingError(
            "[server] plane: the native module is not installed; build it with 'make native' (needs cargo), "
            'or set plane = "auto"'
        )
    return PYTHON_PLANE if requested == "python" or not AVAILABLE else NativePlane()


class NativePlane:
    """A ``Plane`` whose parts are classes of the native module."""

    name = "native"
    batch_size = 64  # lbdns_native.BATCH

    def native_table(self, payload: int) -> NativeTable | None:
        return lbdns_native.AnswerTable(QUERY_SHAPES, COOKIE_QUERY_SHAPES, truncated_variants(payload))

    def datagram_batch(self) -> DatagramBatch | None:
        return lbdns_native.DatagramBatch()

    def rate_limiter(self, rules: RateLimitConfig, share: int) -> AnyRateLimiter:
        exempt = [(str(network.network_address), network.prefixlen) for network in rules.exempt]
        limit = -(-rules.responses_per_second // share)
        return lbdns_native.RateLimiter(limit, rules.slip, rules.ipv4_prefix, rules.ipv6_prefix, exempt)

    def member_selector(self) -> MemberSelector:
        return MemberSelector(lbdns_native.RetransmissionCache(), lbdns_native.FamilyAffinity())

    def cookie_jar(self, secrets: Sequence[bytes]) -> CookieJar:
        return lbdns_native.ServerCookies(secrets)


def truncated_variants(payload: int) -> list[Variant]:
    """Return the truncated response of each response kind; one with a cookie ends where the cookie begins."""
    found = []
    for kind in range(KINDS):
        flags, edns = query_parameters(kind)
        query = Query(b"", flags, edns=edns)
        found.append(precompiled_variant(truncated(EMPTY_BODY), query, kind >= FIRST_COOKIE_KIND, payload))
    return found
