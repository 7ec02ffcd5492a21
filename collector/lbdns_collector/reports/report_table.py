"""The report table: accepts or rejects report datagrams, and stores the newest reading of every member. Sans-I/O.

The report table checks each datagram in the order below. If a check fails, the datagram is dropped, and the failed
check determines the reason. A datagram's body is decoded only after the sender has been verified.

    too_long      the datagram has more than 1200 bytes
    malformed     the datagram has no valid envelope (or, after the rate check, no valid body)
    wrong_subject the datagram comes over a bus, and its subject names another host
    unknown_host  no member has the report's host name
    bad_tag       the tag matches no configured key; without keys: the source is not one of the host's addresses,
                  or the datagram comes over a bus
    rate          the host sends more than 50 reports/s for some time
    clock         the report's time differs from the collector's clock by more than 30 s
    duplicate     the report has already arrived on the other path (over UDP or over the bus)
    replay        the report is not newer than the last accepted report from the host
    join_...      the host is not in the configuration, and may not join a pool (see ``joining/join_requests.py``)

A host that is not in the configuration counts as unknown unless its name matches a pool's ``join`` setting. The table
stores the readings of a host with such a name as soon as its first report is accepted. The host can therefore be
selected as soon as it is part of the farm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lbdns.model.farm import ReportingHost
from lbdns.model.snapshot import Reading, Snapshot, read_reading, write_reading
from lbdns.scores.score import Score
from lbdns.sockets.client_network import plain_text
from lbdns_collector.joining.join_requests import JoinRequests
from lbdns_collector.reports.bus_status import BusStatus
from lbdns_collector.reports.member_readings import MemberReadings
from lbdns_collector.reports.rejected_reports import RejectedReports
from lbdns_collector.reports.report_batch import AcceptTarget, ReportAcceptor, ReportBatch
from lbdns_collector.reports.report_figures import NativeFigures
from lbdns_collector.reports.report_reader import PYTHON_READER, OpenedReport, ReportReader
from lbdns_collector.reports.reporting_peer import MAX_SKEW, AbsentHosts, AcceptedReport, HostRecord, ReportingPeer
from lbdns_shared.errors import ReportError
from lbdns_shared.keys import MasterKey
from lbdns_shared.report import REASONS, Report

ACCEPTED: Final = "accepted"
DUPLICATE: Final = "duplicate"
RESULTS: Final = (ACCEPTED, *REASONS)

UNKNOWN_HOST: Final = ReportingHost((), ())  # stands for a host that is not in the farm
STRANGER: Final = ReportingHost((), (), joined=True)  # stands for a host that has yet to join
FORGET_ABSENT: Final = 3600.0  # seconds; long before that, the clock check rejects all their recorded reports


class ReportTable(MemberReadings):
    """A table that accepts or drops datagrams, and stores the members' readings."""

    def __init__(
        self, hosts: Mapping[str, ReportingHost], keys: Sequence[MasterKey], score: Score, shadow: Score | None = None
    ) -> None:
        """``score`` is applied to new reports. ``shadow`` is a second score, which is computed only for comparison."""
        super().__init__(score, shadow)
        self.counts = dict.fromkeys(RESULTS, 0)
        #: The senders of rejected reports
        self.rejected = RejectedReports(_addresses(hosts))
        self._hosts = hosts
        self._masters = {key.key_id: key for key in keys}
        self.reader: ReportReader = PYTHON_READER
        #: accepts the next reports of known hosts, with the same checks; None: this table judges all reports
        self.acceptor: ReportAcceptor | None = None
        #: the connection to a bus from which reports also come; None: all reports come over UDP
        self.bus: BusStatus | None = None
        #: the hosts that may join; None: only hosts in the configuration may report
        self.joins: JoinRequests | None = None
        self._peers: dict[str, ReportingPeer] = {}  # of known hosts only, so never more than the farm has
        self._absent = AbsentHosts()  # records of hosts that a reload removed and another may add

    def use_reader(self, reader: ReportReader) -> None:
        """Read reports with ``reader``. Call this method before the first report."""
        self.reader, self.acceptor = reader, reader.acceptor(Reading, AcceptedReport)
        self.figures = reader.figures(self.figures.score, self.figures.shadow)

    def accept(self, datagram: bytes, source: str, now: float, wall: float, subject_host: str | None = None) -> str:
        """Check a datagram from address ``source``, and store its reading if it is accepted.

        Return "accepted" or an item of ``lbdns_shared.report.REASONS``, and never raise an exception. ``now`` is in
        monotonic seconds, and ``wall`` is in Unix seconds. For a datagram from a bus, ``source`` is its subject, and
        ``subject_host`` is the host that the subject names.
        """
        if subject_host is not None and self._accept_message(datagram, subject_host, now, wall):
            return ACCEPTED
        try:
            result = self._judge(datagram, source, now, wall, subject_host)
        except ReportError as error:
            result = error.reason
        self.counts[result] += 1
        if subject_host is not None and self.bus:
            self.bus.counts[result] += 1
        if result is not ACCEPTED and result is not DUPLICATE:
            self.rejected.note(result, datagram, source, wall)
        return result

    def accept_batch(self, batch: ReportBatch, at: int, now: float, wall: float) -> int:
        """Accept the datagrams of ``batch`` from number ``at`` on, up to the first one that ``accept`` must judge.

        Return the number of this datagram, or the size of the batch.
        """
        target = self._target(is_from_bus=False)
        if target is None:
            return at
        end = batch.accept(at, self.acceptor, now, wall, target)
        self._count_accepted(end - at)
        return end

    def _accept_message(self, datagram: bytes, subject_host: str, now: float, wall: float) -> bool:
        """Accept a report from the bus if it is the next one of a known host."""
        target = self._target(is_from_bus=True)
        if target is None or self.acceptor is None or self.bus is None:
            return False
        if not self.acceptor.accept(datagram, subject_host, now, wall, target):
            return False
        self._count_accepted(1)
        self.bus.counts[ACCEPTED] += 1
        return True

    def _target(self, is_from_bus: bool) -> AcceptTarget | None:
        figures = self.figures
        if self.acceptor is None or self.adaptive or not isinstance(figures, NativeFigures):
            return None
        scores = figures.native_score, figures.native_shadow
        return self._readings, self._changed_members, *scores, self.max_interval, is_from_bus if self.bus else None

    def _count_accepted(self, count: int) -> None:
        if count:
            self.counts[ACCEPTED] += count
            self._changed = True

    def newest_report(self, host: str) -> AcceptedReport | None:
        """Return the newest accepted report of ``host``, or None if there is none."""
        peer = self._peers.get(host)
        return peer.accepted if peer and peer.accepted.seq >= 0 else None

    @property
    def skews(self) -> dict[str, float]:
        """By host name, the number of seconds by which the host's clock is ahead of the collector's clock."""
        return {name: peer.skew for name, peer in self._peers.items() if peer.has_reported}

    def host_document(self, name: str, source: str, wall: float) -> dict[str, Any]:
        """Return data about the reports of host ``name`` at ``wall`` (Unix seconds), for its agent.

        ``rejected`` also contains all rejected reports from address ``source``, with any host name.
        """
        peer = self._peers.get(name) or ReportingPeer(UNKNOWN_HOST)
        return {
            "host": name,
            "known": name in self._hosts,
            "time": round(wall, 3),
            **peer.document(wall),
            "rejected": [sender.document(wall) for sender in self.rejected.of_host(name, source, wall)],
        }

    def reconfigure(
        self, hosts: Mapping[str, ReportingHost], keys: Sequence[MasterKey], score: Score, shadow: Score | None = None
    ) -> None:
        """Switch to another configuration. Set ``agentless`` and ``joins`` before calling this method.

        If a host is in both configurations, its readings and sequence numbers remain, and its scores are recomputed.
        """
        if self.joins:
            # Hosts that have requested to join since the new configuration was made keep their readings
            joined = {name: peer.host for name, peer in self._peers.items() if peer.host.joined}
            requested = {name for name, host in joined.items() if any(map(self.joins.is_requested, host.members))}
            hosts = {**{name: joined[name] for name in requested}, **hosts}
        peers = {name: peer for name, peer in self._peers.items() if name in hosts}
        for name, peer in peers.items():
            peer.host = hosts[name]
            peer.keys = ()
            peer.join_request = None  # the rules may have changed
        for name, peer in self._peers.items():
            if name not in hosts and peer.accepted.seq >= 0:
                self._absent.keep(name, peer.record())
        for name in [name for name in self._absent if name in hosts]:
            peers[name] = ReportingPeer(hosts[name])
            peers[name].adopt(self._absent.pop(name), math.inf)
        readings = self._readings_of(hosts, self._readings)
        if score != self.figures.score or shadow != self.figures.shadow:
            self.figures = self.figures.using(score, shadow)
            readings = {name: self._rescored(reading) for name, reading in readings.items()}
        self._hosts = hosts
        self._masters = {key.key_id: key for key in keys}
        if self.acceptor is not None:
            self.acceptor.clear()
        self._peers = peers
        self.rejected.addresses = _addresses(hosts)
        self._replace_all(readings)

    def _judge(self, datagram: bytes, source: str, now: float, wall: float, subject_host: str | None) -> str:
        envelope = self.reader.open(datagram)
        is_from_bus = subject_host is not None
        if is_from_bus and subject_host != envelope.host:
            return "wrong_subject"
        peer = self._peers.get(envelope.host) or self._new_peer(envelope.host)
        if peer is None:
            return "unknown_host"
        if not self._is_authentic(envelope, peer, "" if is_from_bus else source):
            return "bad_tag"
        if not peer.may_send(now):
            return "rate"
        return self._judge_report(peer, self.reader.decode(envelope), source, now, wall, is_from_bus)

    def _judge_report(
        self, peer: ReportingPeer, report: Report, source: str, now: float, wall: float, is_from_bus: bool
    ) -> str:
        """Judge an authentic report."""
        if abs(report.time - wall) > MAX_SKEW:
            return "clock"
        if peer.has_seen(report, wall):
            if not (self.bus and peer.is_duplicate(report, is_from_bus)):
                return "replay"
            peer.note_path(report, is_from_bus)
            return DUPLICATE
        if peer.host.joined and self.joins:
            self._join(self.joins, peer, report, None if is_from_bus else plain_text(source), now)
        if self.bus:
            peer.note_path(report, is_from_bus)
        peer.note(report, wall)
        self._record(peer, report, now)
        return ACCEPTED

    def _new_peer(self, name: str) -> ReportingPeer | None:
        """Return a peer for a host that has not reported yet, or None if the host is unknown.

        The peer of a host that is not in the farm is stored only once the host may join. It still rejects replays of
        earlier reports.
        """
        if host := self._hosts.get(name):
            self._peers[name] = ReportingPeer(host)
            return self._peers[name]
        if not (self.joins and self._masters and self.joins.may_join(name)):
            return None
        peer = ReportingPeer(STRANGER)
        if name in self._absent:
            peer.adopt(self._absent[name], math.inf)
        return peer

    def _is_authentic(self, envelope: OpenedReport, peer: ReportingPeer, source: str) -> bool:
        """``source`` is empty for a report from a bus, which must be signed, because a bus need not be trusted."""
        if self._masters:
            if not peer.has_signed(envelope, self._masters):
                return False
            key = peer.key(envelope.key_id)
            if key and self.acceptor is not None and self._peers.get(envelope.host) is peer:
                self.acceptor.add(envelope.host, envelope.key_id, key.secret, peer)
            return True
        return source in peer.host.addresses or plain_text(source) in peer.host.addresses

    def _join(self, joins: JoinRequests, peer: ReportingPeer, report: Report, source: str | None, now: float) -> None:
        """Admit the sender of an authentic report as a joined host. Raises ReportError if the host may not join.

        The rules are checked again whenever the pool, the addresses or the source in the host's reports change.
        """
        request = report.pool, report.addresses, source
        if request == peer.join_request:
            return
        wanted, full_name = joins.judge(report, source, now)
        joins.request(wanted, now)
        peer.join_request = request
        peer.host = ReportingHost((full_name,), wanted.addresses, joined=True)
        self._peers[report.host] = peer
        self._absent.pop(report.host, None)

    def records(self, wall: float) -> dict[str, HostRecord]:
        """Return everything that must survive a restart, as plain data keyed by host name.

        Any thread may call this method. ``wall`` is the current time in Unix seconds.
        """
        # ``copy`` is atomic, unlike a loop over a dictionary that the event loop's thread may change
        found = {name: peer.record() for name, peer in self._peers.copy().items() if peer.accepted.seq >= 0}
        for name, record in self._absent.copy().items():
            if wall - record[0].received < FORGET_ABSENT:
                found.setdefault(name, record)
        return found

    def remember(self, records: Mapping[str, Any], now: float, wall: float) -> int:
        """Restore the ``records`` of an earlier process, so that reports older than these records are rejected.

        Hosts that have already reported to this process remain unchanged. A member whose last report was a "bye" is
        silent. Return the number of invalid records, which are ignored. ``now`` is in monotonic seconds, ``wall`` in
        Unix seconds.
        """
        invalid = 0
        for name, record in records.items():
            host = self._hosts.get(name)
            peer = ReportingPeer(host or UNKNOWN_HOST)
            try:
                peer.adopt(record, wall)
            except (ValueError, TypeError):
                invalid += 1
                continue
            if host is None:
                self._absent.keep(name, peer.record())
            elif name not in self._peers or self._peers[name].accepted.seq < 0:
                self._peers[name] = peer
                if peer.accepted.gone:
                    self._record_bye(host.members, now - (wall - peer.accepted.received))
        return invalid

    def state(self, now: float) -> dict[str, Any]:
        """Return the table's state as plain data for another process.

        The state contains the readings and their ages at ``now``, the sequence numbers for rejecting replays, and the
        counters.
        """
        return {
            "version": self._snapshot.version,
            "readings": {name: write_reading(reading, now) for name, reading in self._readings.items()},
            "peers": {name: peer.state(now) for name, peer in self._peers.items()},
            "records": self.records(-math.inf),  # older versions neither send nor read them
            "counts": dict(self.counts),
        }

    def restore(self, state: Any, now: float) -> None:
        """Restore the table from another process's state. The method ignores unknown hosts, and recomputes scores.

        ``now`` is the monotonic time at which ``state`` was created. Raises ValueError if ``state`` is invalid.
        """
        try:
            readings = {str(name): self._bounded(read_reading(value, now)) for name, value in state["readings"].items()}
            peers = {}
            for name, value in state["peers"].items():
                if name in self._hosts:
                    peers[name] = ReportingPeer(self._hosts[name])
                    peers[name].restore(value, now)
            absent = {}
            for name, record in state.get("records", {}).items():
                peer = peers.get(name) or ReportingPeer(UNKNOWN_HOST)
                peer.adopt(record, math.inf)
                if name not in peers:
                    absent[str(name)] = peer.record()
            counts = {result: int(state["counts"].get(result, 0)) for result in RESULTS}
            version = int(state["version"])
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"not a valid collector state: {error!r}") from None
        readings = self._readings_of(self._hosts, readings)
        self._replace_all({name: self._rescored(reading) for name, reading in readings.items()})
        self._peers, self._absent, self._changed = peers, AbsentHosts(absent), True
        if self.acceptor is not None:
            self.acceptor.clear()
        self._snapshot = Snapshot(max(version, self._snapshot.version), {}, self._changes)
        for result, count in counts.items():
            self.counts[result] += count


def _addresses(hosts: Mapping[str, ReportingHost]) -> frozenset[str]:
    return frozenset(address for host in hosts.values() for address in host.addresses)
