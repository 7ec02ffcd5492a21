"""Member readings: the newest reading of every member, made from accepted reports. Sans-I/O."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any

from lbdns.model.farm import ReportingHost
from lbdns.model.snapshot import Reading, ReadingChanges, Snapshot
from lbdns.scores.score import Score
from lbdns_collector.reports.adaptive_weights import WeightSearch
from lbdns_collector.reports.report_figures import PythonFigures, ReportFigures
from lbdns_collector.reports.reporting_peer import ReportingPeer
from lbdns_shared.report import MIN_INTERVAL, Report


class MemberReadings:
    """The newest reading of every member.

    The readings are not thread-safe, but their immutable snapshots are.
    """

    def __init__(self, score: Score, shadow: Score | None = None) -> None:
        """``score`` is applied to new reports. ``shadow`` is a second score, which is computed only for comparison."""
        #: computes capacities, derived metrics and scores
        self.figures: ReportFigures = PythonFigures(score, shadow)
        self.max_interval = math.inf  # s; a longer interval counts as this, so that a silent host is noticed in time
        #: full names of the members without an agent, whose readings come from checks
        self.agentless: Collection[str] = ()
        #: the search for better weights of the score, if adaptive weights are on
        self.adaptive: WeightSearch | None = None
        self._readings: dict[str, Reading] = {}
        self._failed_servers: set[str] = set()  # members whose agents have just reported that the web server failed
        self._changes = ReadingChanges()  # of the newest snapshot
        self._snapshot = Snapshot(changes=self._changes)
        self._changed = False
        self._changed_members: dict[str, None] = {}  # full names of the members whose readings have changed

    @property
    def score(self) -> Score:
        """The score that is computed for new reports."""
        return self.figures.score

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the current readings, or the previous snapshot object if nothing has changed."""
        if self._changed:
            self._changes.next = ReadingChanges(self._changed_members)
            self._changes, self._changed_members = self._changes.next, {}
            self._snapshot = Snapshot(self._snapshot.version + 1, self._readings.copy(), self._changes)
            self._changed = False
        return self._snapshot

    def reading(self, member: str) -> Reading | None:
        """Return the newest reading of ``member`` (full name), or None if there is none."""
        return self._readings.get(member)

    def replace(self, member: str, reading: Reading) -> None:
        """Store the new reading of ``member`` (full name) after its checks have changed the reading."""
        self._store(member, reading)

    def members(self) -> Collection[str]:
        """Return the full names of the members with a reading."""
        return self._readings.keys()

    def take_failed_servers(self) -> Collection[str]:
        """Return the members whose agents have reported a failed web server since the last call."""
        found, self._failed_servers = self._failed_servers, set()
        return found

    def _record(self, peer: ReportingPeer, report: Report, now: float) -> None:
        members, metrics = peer.host.members, report.metrics
        if self.adaptive and report.kind == "data" and self.adaptive.observe(metrics, report.interval, now):
            # Applies to reports from now on: after one interval, all members are scored alike again
            self.figures = self.figures.using(self.adaptive.score, self.figures.shadow)
        # Of the shortest intervals, not even the number in a second is finite
        interval = max(MIN_INTERVAL, min(report.interval, self.max_interval))
        if metrics:
            assert isinstance(metrics, dict), "the reader has just made it for this report"
            estimate = peer.estimate
            if estimate is None:
                estimate = peer.estimate = self.figures.estimate()
            estimate.derive(metrics, interval, now)
        score, shadow = self.figures.scores(metrics)
        if report.kind == "data":
            reading = Reading(now, interval, score, metrics, "", False, shadow)
            for member in members:
                self._store(member, reading)
        else:
            alarm = (report.alarm or "alarm") if report.kind == "alarm" else ""
            notice = Reading(now, interval, score, metrics, alarm, report.kind == "bye", shadow)
            self._record_notice(members, notice)

    def _store(self, member: str, reading: Reading) -> None:
        self._readings[member] = reading
        self._changed_members[member] = None
        self._changed = True

    def _record_notice(self, members: tuple[str, ...], reading: Reading) -> None:
        """Record an alarm or a "bye". A failed check stays: only a "data" report proves that its result is outdated."""
        for member in members:
            if before := self._readings.get(member):
                kept: dict[str, Any] = {"failed_checks": before.failed_checks}
                if not reading.metrics:
                    # This report is about the agent, not about the load: the load known before stays valid
                    kept |= {"score": before.score, "metrics": before.metrics, "shadow_score": before.shadow_score}
                self._store(member, dataclasses.replace(reading, **kept))
            else:
                self._store(member, reading)
        if reading.web_server_failed:
            self._failed_servers.update(members)

    def _replace_all(self, readings: dict[str, Reading]) -> None:
        self._changed = self._changed or readings != self._readings
        self._changed_members.update(dict.fromkeys((*self._readings, *readings)))
        self._readings = readings

    def _readings_of(self, hosts: Mapping[str, ReportingHost], readings: Mapping[str, Reading]) -> dict[str, Reading]:
        """Return the ``readings`` that come from reports of ``hosts`` or from checks of agentless members."""
        members = {member for host in hosts.values() for member in host.members}
        return {
            name: reading
            for name, reading in readings.items()
            if name in (members if reading.score is not None else self.agentless)
        }

    def _bounded(self, reading: Reading) -> Reading:
        if reading.score is None:
            return reading
        return dataclasses.replace(reading, interval=min(reading.interval, self.max_interval))

    def _rescored(self, reading: Reading) -> Reading:
        if reading.score is None:
            return reading
        score, shadow = self.figures.scores(reading.metrics)
        return dataclasses.replace(reading, score=score, shadow_score=shadow)

    def _record_bye(self, members: tuple[str, ...], received: float) -> None:
        score, shadow = self.figures.scores({})
        for member in members:
            if member not in self._readings:
                self._store(member, Reading(received, 1.0, score, {}, "", True, shadow))
