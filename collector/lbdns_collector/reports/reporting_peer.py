"""The collector's data about one reporting host, used for rate limiting and for rejecting replays.

Sans-I/O.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from lbdns.model.farm import ReportingHost
from lbdns_collector.reports.report_figures import CapacityEstimate
from lbdns_collector.reports.report_reader import OpenedReport
from lbdns_shared.keys import MasterKey
from lbdns_shared.report import AgentKey, Report

MAX_SKEW: Final = 30.0  # seconds between an agent's clock and the collector's
RATE: Final = 50.0  # reports a second from one host: five times the rate at the shortest interval, to allow for alarms
MAX_REPLACED: Final = 64  # boots remembered per host; an agent that restarts more often in a minute harms only itself
MAX_ABSENT: Final = 10_000  # hosts that are no longer in the farm, or not yet, whose sequence numbers are remembered
BURST: Final = 100.0  # reports at once, for example after a network outage

_LONG_AGO: Final = -math.inf
_NO_BOOTS: Final[Mapping[int, float]] = {}  # shared, and therefore never changed


class AcceptedReport(NamedTuple):
    """The newest accepted report of one host, with all data that the collector needs to recognise newer reports.

    ``latest`` is the latest timestamp in any accepted report, and ``received`` is the time of receipt on the
    collector's clock. Both times are in Unix seconds. ``gone`` is true if the report is a "bye" report.
    """

    boot: int
    seq: int
    latest: float
    received: float
    gone: bool


#: A host's newest report, and for each replaced boot the time (Unix seconds) until which its reports are rejected
HostRecord = tuple[AcceptedReport, Mapping[int, float]]


class AbsentHosts(dict[str, HostRecord]):
    """The records of hosts that are not in the farm, keyed by host name. The oldest records are dropped."""

    def keep(self, name: str, record: HostRecord) -> None:
        self[name] = record
        if len(self) > MAX_ABSENT:
            del self[next(iter(self))]


NO_REPORT: Final = AcceptedReport(-1, -1, _LONG_AGO, _LONG_AGO, False)


class ReportingPeer:
    __slots__ = (
        "_newest", "accepted", "estimate", "filled", "has_reported", "host", "join_request", "keys", "replaced", "skew",
        "tokens",
    )  # fmt: skip

    def __init__(self, host: ReportingHost) -> None:
        self.host = host
        self.keys: tuple[AgentKey, ...] = ()  # one for each master key that it uses, derived on first use
        #: of a joined host: the pool, addresses and source of the last report that satisfied the rules for joining
        self.join_request: tuple[str, tuple[str, ...], str | None] | None = None
        self._newest: dict[bool, tuple[int, int]] | None = None
        # One immutable object, so that another thread can read a consistent state
        self.accepted = NO_REPORT
        self.replaced: Mapping[int, float] = _NO_BOOTS  # earlier boots, and until when to remember them, Unix seconds
        self.skew = 0.0  # seconds by which its clock is ahead of the collector's
        self.estimate: CapacityEstimate | None = None  # None before the first report with metrics
        self.has_reported = False  # whether ``skew`` is known
        self.tokens = BURST
        self.filled = _LONG_AGO  # when the tokens were counted, monotonic seconds

    def has_signed(self, envelope: OpenedReport, masters: Mapping[bytes, MasterKey]) -> bool:
        """Return whether the tag was made with this host's key of one of ``masters``, which are keyed by key id."""
        key = self.key(envelope.key_id)
        if key is None:
            master = masters.get(envelope.key_id)
            if master is None:
                return False
            key = master.agent_key(envelope.host)
            self.keys = (*self.keys, key)
        return envelope.signed_by(key)

    def key(self, key_id: bytes) -> AgentKey | None:
        """Return this host's key with the key ID ``key_id``, or None if it has not been derived yet."""
        return next((key for key in self.keys if key.key_id == key_id), None)

    @property
    def newest(self) -> dict[bool, tuple[int, int]]:
        """With a bus: the boot and the highest sequence number over UDP (False) and over the bus (True)."""
        if self._newest is None:  # without a bus, an empty dictionary for each host would be a waste
            self._newest = {}
        return self._newest

    def is_duplicate(self, report: Report, is_from_bus: bool) -> bool:
        """Return whether ``report``, which is not newer than the last accepted report, is the first of its kind on this
        path.

        An agent that sends its reports over UDP and over a bus sends each one once on each path.
        """
        boot, seq = self.newest.get(is_from_bus, (-1, -1))
        return report.boot == self.accepted.boot and (report.boot != boot or report.seq > seq)

    def note_path(self, report: Report, is_from_bus: bool) -> None:
        """Remember ``report`` as the newest on its path."""
        self.newest[is_from_bus] = (report.boot, report.seq)

    def may_send(self, now: float) -> bool:
        self.tokens = min(BURST, self.tokens + (now - self.filled) * RATE)
        self.filled = now
        return self.tokens >= 1.0

    def has_seen(self, report: Report, wall: float) -> bool:
        """Return True if ``report`` is not newer than the last accepted report."""
        # Another boot must be new, and later than every report before it: a clock set back must not revive an old boot
        last = self.accepted
        if report.boot == last.boot:
            return report.seq <= last.seq
        return report.time <= last.latest or wall <= self.replaced.get(report.boot, _LONG_AGO)

    def note(self, report: Report, wall: float) -> None:
        # Only accepted reports use a token: an attacker who replays or garbles datagrams cannot starve the host
        self.tokens -= 1.0
        last = self.accepted
        if report.boot != last.boot and last.seq >= 0:
            self._replace(last.boot, wall)
        latest = report.time if report.time > last.latest else last.latest
        self.accepted = AcceptedReport(report.boot, report.seq, latest, wall, report.kind == "bye")
        self.skew = report.time - wall
        self.has_reported = True

    def document(self, wall: float) -> dict[str, Any]:
        """Return the age and the boot of the last accepted report, for the host's agent."""
        last = self.accepted if self.has_reported else None
        return {
            "accepted_age_s": round(max(0.0, wall - last.received), 3) if last else None,
            # In hex, because many JSON parsers round integers above 2**53
            "boot": f"{last.boot:016x}" if last else "",
        }

    def record(self) -> HostRecord:
        """Return, as plain data, everything that must survive a restart so that replays are still rejected.

        Any thread may call this method.
        """
        # The newest report is read first: if one arrives in between, its replaced boot is then already listed
        return self.accepted, self.replaced

    def adopt(self, record: Any, wall: float) -> None:
        """Accept only reports that are newer than those in ``record``, a HostRecord from another process.

        ``wall`` is the current time of the collector in Unix seconds. If the host's clock was ahead, its times are
        reduced to the latest time that the clock check accepts, so that the agent is not locked out. Raises ValueError
        or TypeError if ``record`` is invalid.
        """
        (boot, seq, latest, received, gone), replaced = record
        if not isinstance(replaced, Mapping):
            raise TypeError("the replaced boot IDs must be a map")
        numbers, times = [boot, seq, *replaced], [latest, received, *replaced.values()]
        if not (
            all(type(number) is int and 0 <= number < 2**64 for number in numbers)
            and all(type(time) in (int, float) and math.isfinite(time) for time in times)
            and type(gone) is bool
        ):
            raise ValueError("the record of a host's reports is not valid")
        self.accepted = AcceptedReport(boot, seq, min(latest, wall + MAX_SKEW), min(received, wall), gone)
        newest = list(replaced.items())[-MAX_REPLACED:]
        self.replaced = {other: min(until, wall + 2 * MAX_SKEW) for other, until in newest}

    def state(self, now: float) -> list[Any]:
        """Return the host's state as plain data for another process.

        Monotonic times are converted to ages at ``now``, and unset times are converted to None.
        """
        filled = now - self.filled if self.filled > _LONG_AGO else None
        last = self.accepted
        latest = last.latest if last.latest > _LONG_AGO else None
        return [last.boot, last.seq, latest, list(self.replaced.items()), self.skew, self.tokens, filled]

    def restore(self, value: Any, now: float) -> None:
        boot, seq, latest, replaced, skew, tokens, filled = value
        latest = _LONG_AGO if latest is None else float(latest)
        # Older versions send no time of receipt
        self.accepted = AcceptedReport(int(boot), int(seq), latest, latest, gone=False)
        self.replaced = {int(other): float(until) for other, until in replaced[-MAX_REPLACED:]}
        self.skew, self.tokens = float(skew), min(BURST, float(tokens))
        self.has_reported = int(seq) >= 0
        self.filled = _LONG_AGO if filled is None else now - float(filled)

    def _replace(self, boot: int, wall: float) -> None:
        """Reject further reports from ``boot``, until they are so old that the clock check rejects them.

        The rejection must expire: if two agents use one host name and one agent stops, reports from the other agent
        must be accepted again.
        """
        replaced = {other: until for other, until in self.replaced.items() if until >= wall}
        replaced[boot] = wall + 2 * MAX_SKEW
        while len(replaced) > MAX_REPLACED:
            del replaced[next(iter(replaced))]
        self.replaced = replaced
