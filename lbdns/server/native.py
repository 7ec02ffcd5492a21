"""The native plane: usual queries answered by the part in Rust, if it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lbdns.answering.cookies import CookieJar
from lbdns.answering.finished import cut_variants
from lbdns.answering.plane import PYTHON, CompiledTable, Joins, Limits, Plane, Repeats
from lbdns.answering.ways import COOKIE_WAYS, WAYS
from lbdns.config.rate_limit import RateLimitConfig
from lbdns.config.server import PlaneName
from lbdns.errors import LbdnsError

__all__ = ["AVAILABLE", "BATCH", "Batch", "NativePlane", "Peer", "choose", "new_batch"]

try:
    import lbdns_native
except ImportError:  # Python alone does all of it too
    lbdns_native = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from lbdns_native import Batch, Peer

BATCH: Final = 64  # datagrams that the native part reads at once
AVAILABLE: Final = lbdns_native is not None


def new_batch() -> Batch:
    """The buffers of one UDP socket."""
    return lbdns_native.Batch()


class NativeMissingError(LbdnsError):
    """The configuration asks for the native part, and it is not installed."""

    exit_status = 2


def choose(wanted: PlaneName) -> Plane:
    """The plane that the configuration asks for; "auto" is the native one if it is there. Raises LbdnsError."""
    if wanted == "native" and not AVAILABLE:
        raise NativeMissingError(
            "[server] plane: the native part is not installed; 'make native' builds it (it needs cargo), "
            'or set plane = "auto"'
        )
    return PYTHON if wanted == "python" or not AVAILABLE else NativePlane()


class NativePlane:
    """A ``Plane`` whose parts live in the native module."""

    name = "native"

    def table(self, payload: int) -> CompiledTable | None:
        return lbdns_native.Table(WAYS, COOKIE_WAYS, cut_variants(payload))

    def limits(self, rules: RateLimitConfig, share: int) -> Limits:
        exempt = [(str(network.network_address), network.prefixlen) for network in rules.exempt]
        limit = -(-rules.responses_per_second // share)
        return lbdns_native.Limiter(limit, rules.slip, rules.ipv4_prefix, rules.ipv6_prefix, exempt)

    def repeats(self) -> Repeats:
        return lbdns_native.Recent()

    def joins(self) -> Joins:
        return lbdns_native.Coherence()

    def cookies(self, secrets: Sequence[bytes]) -> CookieJar:
        return lbdns_native.Cookies(secrets)
