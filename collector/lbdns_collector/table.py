"""The table: which reports count, and the newest one of every member. Pure: no socket, no clock.

The checks, in this order; the first that fails gives the reason, and the body of a datagram that nobody
vouches for is never decoded::

    too_long      over 1200 bytes
    malformed     no envelope (again after the rate: no body)
    unknown_host  no member of that name
    bad_tag       the tag fits no configured key; without keys: the source is not one of the host's addresses
    rate          more than 50 reports a second of one host for a while
    clock         the report's time is over 30 s away from ours
    replay        not newer than the last accepted report of that host
"""

from __future__ import annotations

import dataclasses
import ipaddress
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lbdns.errors import ReportError
from lbdns.farm import Host
from lbdns.keys import MasterKey
from lbdns.report import REASONS, AgentKey, Envelope, Report, decode_body, open_envelope
from lbdns.snapshot import EMPTY, Reading, Snapshot
from lbdns_collector.adaptive import Adaptive
from lbdns_collector.score import Score

ACCEPTED: Final = "accepted"
RESULTS: Final = (ACCEPTED, *REASONS)

MAX_SKEW: Final = 30.0  # seconds between an agent's clock and ours
RATE: Final = 50.0  # reports a second of one host: five times the fastest interval's, with alarms
MAX_REPLACED: Final = 64  # boots remembered of one host; one that starts more often in a minute harms only itself
BURST: Final = 100.0  # reports at once, after a network held them back

_LONG_AGO: Final = float("-inf")


class _Peer:
    """What is remembered of one host name that reports."""

    __slots__ = ("boot", "filled", "host", "keys", "newest", "replaced", "seq", "skew", "tokens")

    def __init__(self, host: Host) -> None:
        self.host = host
        self.keys: dict[bytes, AgentKey] = {}  # by key id, derived on first use
        self.boot = self.seq = -1  # of the last accepted report
        self.newest = _LONG_AGO  # latest time of any accepted report, Unix seconds
        self.replaced: dict[int, float] = {}  # earlier boots, and until when they are remembered, Unix seconds
        self.skew = 0.0  # seconds its clock is ahead of ours
        self.tokens = BURST
        self.filled = _LONG_AGO  # when tokens was right, monotonic seconds

    def may_send(self, now: float) -> bool:
        self.tokens = min(BURST, self.tokens + (now - self.filled) * RATE)
        self.filled = now
        return self.tokens >= 1.0

    def has_seen(self, report: Report, wall: float) -> bool:
        """Whether ``report`` is not newer than the last accepted one.

        Another boot needs a later time than every report before, and must be a new one: an agent's clock
        that was set back must not let an earlier boot's datagrams in again.
        """
        if report.boot == self.boot:
            return report.seq <= self.seq
        return report.time <= self.newest or wall <= self.replaced.get(report.boot, _LONG_AGO)

    def note(self, report: Report, wall: float) -> None:
        # Only what is accepted is paid for: who replays or garbles datagrams can't starve the host
        self.tokens -= 1.0
        if report.boot != self.boot and self.seq >= 0:
            self._replace(wall)
        self.boot, self.seq = report.boot, report.seq
        self.newest = max(self.newest, report.time)
        self.skew = report.time - wall

    def state(self, now: float) -> list[Any]:
        """As plain data; monotonic times as ages at ``now``, "never" as None."""
        filled = now - self.filled if self.filled > _LONG_AGO else None
        newest = self.newest if self.newest > _LONG_AGO else None
        return [self.boot, self.seq, newest, list(self.replaced.items()), self.skew, self.tokens, filled]

    def restore(self, value: Any, now: float) -> None:
        """Go on where another process was. Raises ValueError or TypeError."""
        boot, seq, newest, replaced, skew, tokens, filled = value
        self.boot, self.seq = int(boot), int(seq)
        self.newest = _LONG_AGO if newest is None else float(newest)
        self.replaced = {int(other): float(until) for other, until in replaced[-MAX_REPLACED:]}
        self.skew, self.tokens = float(skew), min(BURST, float(tokens))
        self.filled = _LONG_AGO if filled is None else now - float(filled)

    def _replace(self, wall: float) -> None:
        """Remember the boot that another one follows, until the clocks forbid all that it has sent.

        Not longer: of two agents with one name the first has to get through again when the second is gone.
        """
        self.replaced = {boot: until for boot, until in self.replaced.items() if until >= wall}
        self.replaced[self.boot] = wall + 2 * MAX_SKEW
        while len(self.replaced) > MAX_REPLACED:
            del self.replaced[next(iter(self.replaced))]


class Table:
    """Decides on datagrams and keeps the readings. One caller at a time; snapshots may go anywhere."""

    def __init__(
        self, hosts: Mapping[str, Host], keys: Sequence[MasterKey], score: Score, shadow: Score | None = None
    ) -> None:
        """``shadow`` is a score that is tried beside ``score``."""
        self.counts = dict.fromkeys(RESULTS, 0)
        self._hosts = hosts
        self._masters = {key.key_id: key for key in keys}
        self._score, self._shadow = score, shadow
        self.adaptive: Adaptive | None = None  # what looks for better weights of the score, if anything does
        self._peers: dict[str, _Peer] = {}  # of known hosts only, so never more than the farm has
        self._readings: dict[str, Reading] = {}
        self._snapshot = EMPTY
        self._changed = False

    def accept(self, datagram: bytes, source: str, now: float, wall: float) -> str:
        """Judge a datagram from address ``source`` and take it in if it counts.

        ``now`` is monotonic, ``wall`` Unix seconds. Returns "accepted" or one of ``lbdns.report.REASONS``;
        never raises, whatever the datagram.
        """
        try:
            result = self._judge(datagram, source, now, wall)
        except ReportError as error:
            result = error.reason
        self.counts[result] += 1
        return result

    def snapshot(self) -> Snapshot:
        """The readings as they are now; the same object as before if nothing changed."""
        if self._changed:
            self._snapshot = Snapshot(self._snapshot.version + 1, self._readings.copy())
            self._changed = False
        return self._snapshot

    @property
    def score(self) -> Score:
        """What the next report is weighed by."""
        return self._score

    @property
    def skews(self) -> dict[str, float]:
        """How far each reporting host's clock is ahead of ours, in seconds, by host name."""
        return {name: peer.skew for name, peer in self._peers.items() if peer.seq >= 0}

    def reconfigure(
        self, hosts: Mapping[str, Host], keys: Sequence[MasterKey], score: Score, shadow: Score | None = None
    ) -> None:
        """Go on with another configuration: readings and sequences of those who remain are kept, and weighed anew."""
        members = {member for host in hosts.values() for member in host.members}
        peers = {name: peer for name, peer in self._peers.items() if name in hosts}
        for name, peer in peers.items():
            peer.host = hosts[name]
            peer.keys.clear()
        readings = {name: reading for name, reading in self._readings.items() if name in members}
        weighed_anew = score != self._score or shadow != self._shadow
        self._score, self._shadow = score, shadow
        if weighed_anew:
            readings = {name: self._weighed(reading) for name, reading in readings.items()}
        self._hosts, self._masters = hosts, {key.key_id: key for key in keys}
        self._peers = peers
        self._changed = self._changed or readings != self._readings
        self._readings = readings

    def _judge(self, datagram: bytes, source: str, now: float, wall: float) -> str:
        envelope = open_envelope(datagram)
        peer = self._peers.get(envelope.host)
        if peer is None:
            host = self._hosts.get(envelope.host)
            if host is None:
                return "unknown_host"
            peer = self._peers[envelope.host] = _Peer(host)
        if not self._vouched_for(envelope, peer, source):
            return "bad_tag"
        if not peer.may_send(now):
            return "rate"
        report = decode_body(envelope)
        if abs(report.time - wall) > MAX_SKEW:
            return "clock"
        if peer.has_seen(report, wall):
            return "replay"
        peer.note(report, wall)
        self._record(peer.host.members, report, now)
        return ACCEPTED

    def _vouched_for(self, envelope: Envelope, peer: _Peer, source: str) -> bool:
        if not self._masters:
            return source in peer.host.addresses or plain_address(source) in peer.host.addresses
        key = peer.keys.get(envelope.key_id)
        if key is None:
            master = self._masters.get(envelope.key_id)
            if master is None:
                return False
            key = peer.keys[envelope.key_id] = master.agent_key(envelope.host)
        return envelope.signed_by(key)

    def _record(self, members: tuple[str, ...], report: Report, now: float) -> None:
        metrics = report.metrics
        if self.adaptive and report.kind == "data" and self.adaptive.observe(metrics, report.interval, now):
            # For reports from now on: after one interval all members are weighed alike again
            self._score = self.adaptive.score
        score, shadow = self._scores(metrics)
        alarm = (report.alarm or "alarm") if report.kind == "alarm" else ""
        gone = report.kind == "bye"
        for member in members:
            if report.kind != "data" and not metrics and (before := self._readings.get(member)):
                # A word about the agent, not about the load: what was known of the load stays
                reading = dataclasses.replace(before, received=now, interval=report.interval, alarm=alarm, gone=gone)
            else:
                reading = Reading(now, report.interval, score, metrics, alarm, gone, shadow)
            self._readings[member] = reading
        self._changed = True

    def _scores(self, metrics: Mapping[str, float]) -> tuple[int, int | None]:
        return self._score.of(metrics), self._shadow.of(metrics) if self._shadow else None

    def _weighed(self, reading: Reading) -> Reading:
        score, shadow = self._scores(reading.metrics)
        return dataclasses.replace(reading, score=score, shadow_score=shadow)

    def state(self, now: float) -> dict[str, Any]:
        """All that is known, as plain data for another process: readings with their ages at ``now``, sequences so that
        replays stay refused, and counts."""
        return {
            "version": self._snapshot.version,
            "readings": {name: write_reading(reading, now) for name, reading in self._readings.items()},
            "peers": {name: peer.state(now) for name, peer in self._peers.items()},
            "counts": dict(self.counts),
        }

    def restore(self, state: Any, now: float) -> None:
        """Go on where another process was. Of hosts that are unknown here nothing is taken over; scores are made anew.

        ``now`` is the monotonic time at which ``state`` was made. Raises ValueError, and then nothing has changed.
        """
        try:
            members = {member for host in self._hosts.values() for member in host.members}
            readings = {str(name): read_reading(value, now) for name, value in state["readings"].items()}
            peers = {}
            for name, value in state["peers"].items():
                if name in self._hosts:
                    peers[name] = _Peer(self._hosts[name])
                    peers[name].restore(value, now)
            counts = {result: int(state["counts"].get(result, 0)) for result in RESULTS}
            version = int(state["version"])
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"no state of a collector: {error!r}") from None
        self._readings = {name: self._weighed(reading) for name, reading in readings.items() if name in members}
        self._peers, self._changed = peers, True
        self._snapshot = Snapshot(max(version, self._snapshot.version), {})
        for result, count in counts.items():
            self.counts[result] += count


def write_reading(reading: Reading, now: float) -> list[Any]:
    """A reading as plain data, with its age at ``now`` instead of a time on this process' clock."""
    age = max(0.0, now - reading.received)
    return [age, reading.interval, reading.score, dict(reading.metrics), reading.alarm, reading.gone]


def read_reading(value: Any, now: float) -> Reading:
    """The reading that ``write_reading`` wrote at ``now``. Raises ValueError or TypeError if it is none."""
    age, interval, score, metrics, alarm, gone = value
    numbers = {str(name): float(number) for name, number in metrics.items()}
    if not (0 < float(interval) < math.inf and math.isfinite(age) and all(map(math.isfinite, numbers.values()))):
        raise ValueError(f"{value!r} is no reading")
    return Reading(now - max(0.0, age), float(interval), int(score), numbers, str(alarm), bool(gone))


def plain_address(text: str) -> str:
    """An address as zones write it: IPv4 out of IPv4-mapped IPv6 (RFC 4291 2.5.5.2), without a zone id."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(address)
