"""The report table: decides which report datagrams to accept, and keeps the newest reading of every member. Sans-I/O.

The checks run in the order below. The first check that fails determines the reason for dropping the datagram. A
datagram's body is decoded only after the sender has been verified.

    too_long      over 1200 bytes
    malformed     no valid envelope (or, after the rate check, no valid body)
    unknown_host  no member has that name
    bad_tag       the tag matches no configured key; without keys: the source is not one of the host's addresses
    rate          more than 50 reports a second from one host for some time
    clock         the report's time differs from the collector's by more than 30 s
    replay        the report is not newer than the last accepted report from the host
"""

from __future__ import annotations

import dataclasses
import ipaddress
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lbdns.model.farm import ReportingHost
from lbdns.model.snapshot import EMPTY_SNAPSHOT, Reading, Snapshot, read_reading, write_reading
from lbdns.scores.score import Score
from lbdns_collector.reports.adaptive_weights import WeightSearch
from lbdns_shared.errors import ReportError
from lbdns_shared.keys import MasterKey
from lbdns_shared.report import REASONS, AgentKey, Envelope, Report, decode_body, open_envelope

ACCEPTED: Final = "accepted"
RESULTS: Final = (ACCEPTED, *REASONS)

MAX_SKEW: Final = 30.0  # seconds between an agent's clock and the collector's
RATE: Final = 50.0  # reports a second from one host: five times the rate at the shortest interval, to allow for alarms
MAX_REPLACED: Final = 64  # boots remembered per host; an agent that restarts more often in a minute harms only itself
BURST: Final = 100.0  # reports at once, for example after a network outage

_LONG_AGO: Final = float("-inf")


class _ReportingHost:
    __slots__ = ("boot", "filled", "host", "keys", "newest", "replaced", "seq", "skew", "tokens")

    def __init__(self, host: ReportingHost) -> None:
        self.host = host
        self.keys: dict[bytes, AgentKey] = {}  # by key id, derived on first use
        self.boot = self.seq = -1  # of the last accepted report
        self.newest = _LONG_AGO  # latest time in any accepted report, Unix seconds
        self.replaced: dict[int, float] = {}  # earlier boots, and until when to remember them, Unix seconds
        self.skew = 0.0  # seconds by which its clock is ahead of the collector's
        self.tokens = BURST
        self.filled = _LONG_AGO  # when the tokens were counted, monotonic seconds

    def may_send(self, now: float) -> bool:
        self.tokens = min(BURST, self.tokens + (now - self.filled) * RATE)
        self.filled = now
        return self.tokens >= 1.0

    def has_seen(self, report: Report, wall: float) -> bool:
        """Return whether ``report`` is not newer than the last accepted report."""
        # Another boot must be new, and later than every report before it: a clock set back must not revive an old boot
        if report.boot == self.boot:
            return report.seq <= self.seq
        return report.time <= self.newest or wall <= self.replaced.get(report.boot, _LONG_AGO)

    def note(self, report: Report, wall: float) -> None:
        # Only accepted reports use a token: an attacker who replays or garbles datagrams cannot starve the host
        self.tokens -= 1.0
        if report.boot != self.boot and self.seq >= 0:
            self._replace(wall)
        self.boot, self.seq = report.boot, report.seq
        self.newest = max(self.newest, report.time)
        self.skew = report.time - wall

    def state(self, now: float) -> list[Any]:
        """Return the host's state as plain data. Monotonic times become ages at ``now``; unset times become None."""
        filled = now - self.filled if self.filled > _LONG_AGO else None
        newest = self.newest if self.newest > _LONG_AGO else None
        return [self.boot, self.seq, newest, list(self.replaced.items()), self.skew, self.tokens, filled]

    def restore(self, value: Any, now: float) -> None:
        boot, seq, newest, replaced, skew, tokens, filled = value
        self.boot, self.seq = int(boot), int(seq)
        self.newest = _LONG_AGO if newest is None else float(newest)
        self.replaced = {int(other): float(until) for other, until in replaced[-MAX_REPLACED:]}
        self.skew, self.tokens = float(skew), min(BURST, float(tokens))
        self.filled = _LONG_AGO if filled is None else now - float(filled)

    def _replace(self, wall: float) -> None:
        """Reject further reports from the current boot until the clock check would reject them anyway.

        The rejection must expire: if two agents use the same name and one agent stops, reports from the remaining
        agent must be accepted again.
        """
        self.replaced = {boot: until for boot, until in self.replaced.items() if until >= wall}
        self.replaced[self.boot] = wall + 2 * MAX_SKEW
        while len(self.replaced) > MAX_REPLACED:
            del self.replaced[next(iter(self.replaced))]


class ReportTable:
    """Accepts or drops datagrams, and stores the members' readings. Only the immutable snapshots are thread-safe."""

    def __init__(
        self, hosts: Mapping[str, ReportingHost], keys: Sequence[MasterKey], score: Score, shadow: Score | None = None
    ) -> None:
        """``score`` is applied to new reports. ``shadow`` is a second score, computed for comparison only."""
        self.counts = dict.fromkeys(RESULTS, 0)
        self._hosts = hosts
        self._masters = {key.key_id: key for key in keys}
        self.score, self._shadow = score, shadow
        self.max_interval = math.inf  # s; a longer interval counts as this, so that a silent host is noticed in time
        #: the search for better weights of the score, if adaptive weights are on
        self.adaptive: WeightSearch | None = None
        self._peers: dict[str, _ReportingHost] = {}  # of known hosts only, so never more than the farm has
        self._readings: dict[str, Reading] = {}
        self._snapshot = EMPTY_SNAPSHOT
        self._changed = False

    def accept(self, datagram: bytes, source: str, now: float, wall: float) -> str:
        """Check a datagram from address ``source``, and record its reading if the datagram is accepted.

        Return "accepted" or one of ``lbdns_shared.report.REASONS``; never raise an exception. ``now`` is in monotonic
        seconds, ``wall`` in Unix seconds.
        """
        try:
            result = self._judge(datagram, source, now, wall)
        except ReportError as error:
            result = error.reason
        self.counts[result] += 1
        return result

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the current readings; if nothing has changed, return the previous snapshot object."""
        if self._changed:
            self._snapshot = Snapshot(self._snapshot.version + 1, self._readings.copy())
            self._changed = False
        return self._snapshot

    @property
    def skews(self) -> dict[str, float]:
        """The seconds by which each reporting host's clock is ahead of the collector's, keyed by host name."""
        return {name: peer.skew for name, peer in self._peers.items() if peer.seq >= 0}

    def reconfigure(
        self, hosts: Mapping[str, ReportingHost], keys: Sequence[MasterKey], score: Score, shadow: Score | None = None
    ) -> None:
        """Switch to another configuration.

        Hosts that are in both configurations keep their readings and sequence numbers; their scores are recomputed.
        """
        members = {member for host in hosts.values() for member in host.members}
        peers = {name: peer for name, peer in self._peers.items() if name in hosts}
        for name, peer in peers.items():
            peer.host = hosts[name]
            peer.keys.clear()
        readings = {name: reading for name, reading in self._readings.items() if name in members}
        must_rescore = score != self.score or shadow != self._shadow
        self.score, self._shadow = score, shadow
        if must_rescore:
            readings = {name: self._rescored(reading) for name, reading in readings.items()}
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
            peer = self._peers[envelope.host] = _ReportingHost(host)
        if not self._is_authentic(envelope, peer, source):
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

    def _is_authentic(self, envelope: Envelope, peer: _ReportingHost, source: str) -> bool:
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
            # Applies to reports from now on: after one interval, all members are scored alike again
            self.score = self.adaptive.score
        score, shadow = self._scores(metrics)
        alarm = (report.alarm or "alarm") if report.kind == "alarm" else ""
        gone = report.kind == "bye"
        interval = min(report.interval, self.max_interval)
        for member in members:
            if report.kind != "data" and not metrics and (before := self._readings.get(member)):
                # This report is about the agent, not about the load: the load known before stays valid
                reading = dataclasses.replace(before, received=now, interval=interval, alarm=alarm, gone=gone)
            else:
                reading = Reading(now, interval, score, metrics, alarm, gone, shadow)
            self._readings[member] = reading
        self._changed = True

    def _scores(self, metrics: Mapping[str, float]) -> tuple[int, int | None]:
        return self.score.of(metrics), self._shadow.of(metrics) if self._shadow else None

    def _bounded(self, reading: Reading) -> Reading:
        return dataclasses.replace(reading, interval=min(reading.interval, self.max_interval))

    def _rescored(self, reading: Reading) -> Reading:
        score, shadow = self._scores(reading.metrics)
        return dataclasses.replace(reading, score=score, shadow_score=shadow)

    def state(self, now: float) -> dict[str, Any]:
        """Return the table's state as plain data for another process.

        The state contains the readings and their ages at ``now``, the sequence numbers for rejecting replays, and the
        counters.
        """
        return {
            "version": self._snapshot.version,
            "readings": {name: write_reading(reading, now) for name, reading in self._readings.items()},
            "peers": {name: peer.state(now) for name, peer in self._peers.items()},
            "counts": dict(self.counts),
        }

    def restore(self, state: Any, now: float) -> None:
        """Restore the table from another process's state. Ignores unknown hosts, and recomputes scores.

        ``now`` is the monotonic time at which ``state`` was created. Raises ValueError if ``state`` is invalid.
        """
        try:
            members = {member for host in self._hosts.values() for member in host.members}
            readings = {str(name): self._bounded(read_reading(value, now)) for name, value in state["readings"].items()}
            peers = {}
            for name, value in state["peers"].items():
                if name in self._hosts:
                    peers[name] = _ReportingHost(self._hosts[name])
                    peers[name].restore(value, now)
            counts = {result: int(state["counts"].get(result, 0)) for result in RESULTS}
            version = int(state["version"])
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"not a valid collector state: {error!r}") from None
        self._readings = {name: self._rescored(reading) for name, reading in readings.items() if name in members}
        self._peers, self._changed = peers, True
        self._snapshot = Snapshot(max(version, self._snapshot.version), {})
        for result, count in counts.items():
            self.counts[result] += count


def plain_address(text: str) -> str:
    """Return an address in the form used in master files: without ``%INTERFACE``, and as IPv4 if it is IPv4-mapped.

    RFC 4291, section 2.5.5.2, defines IPv4-mapped addresses.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(address)
