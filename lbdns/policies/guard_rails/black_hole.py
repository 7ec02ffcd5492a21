"""Black holes: a member that takes hand-outs and serves nothing is known by its reports. Pure: times are arguments.

A web server that is dead has nothing to do: its host looks idle, and scores and loads make it the best of all. Rules:

1. The agent could ask its server-status before, and now it can't, though it goes on reporting. Nothing has to be
   handed out for that: to set somebody aside who gets nothing anyway costs nothing. The agent's own question is the
   probe: once there are counters again, it is over.
2. It took hand-outs, and its requests rise by nothing but the agent's own questions, while errors rise or connections
   wait that nobody accepts. No rise alone proves nothing: names are cached, and pages as well. It is probed with a
   hand-out now and then, since without any nothing can show.
3. A member that never told its requests is never judged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from lbdns.snapshot import Reading

RELEASE: Final = 2  # reports in a row without anything against it, until it is handed out again
FIRST_PROBE: Final = 5.0  # s from catching a member to the first probe; to each further one twice as long ...
LAST_PROBE: Final = 60.0  # ... but not longer, in seconds
BELIEVED: Final = 60.0  # s that a failing page is held against a server that accepts whatever comes
MEMORY: Final = 60.0  # s that errors are held against a member that is asked so seldom that most reports show nothing


@dataclass(frozen=True, slots=True)
class Finding:
    """What reports say against a member."""

    text: str
    reports: int  # in a row, before it is acted upon
    handed: int = 0  # hand-outs meanwhile, before it is
    certain: bool = False  # nothing else can be the reason
    probed: bool = False  # by hand-outs


# Two signs at once: who asks the page is refused, and no socket listens. Whoever is sent there is refused as well, and
# a web server that is only started anew is back after two reports
DEAD: Final = Finding("nothing listens where its server-status was", reports=1, certain=True)
# The page of a busy server that takes 2 s for it is absent from two reports in a row, but not from three
STUCK: Final = Finding("its server-status fails, and connections wait", reports=3)
MUTE: Final = Finding("its server-status fails", reports=3)
CLOGGED: Final = Finding("it serves no requests, and connections wait", reports=2, handed=3, probed=True)
FAILING: Final = Finding("it serves no requests, and its errors rise", reports=2, handed=3, probed=True)


class Watch:
    """What is held against one member, report after report."""

    __slots__ = ("_had", "_ill", "_listened", "_mute_since", "_newest", "_probed", "_released", "_resigned", "_wait",
                 "_well", "_worst", "caught", "finding", "handed", "probe_at", "since")  # fmt: skip

    def __init__(self) -> None:
        self.finding: Finding | None = None  # what its newest reports say against it
        self.caught: Finding | None = None  # what it is to be set aside for
        self.since = 0.0  # when the first of the reports came that speak against it, monotonic seconds
        self.handed = 0  # hand-outs since the last report that spoke for it; for others to count
        self.probe_at = math.inf  # when it is to be handed out once
        self._newest: Reading | None = None
        self._had = False  # it told its requests once
        self._listened = False  # it told its accept queue once
        self._ill = self._well = 0  # reports in a row
        self._worst = 0.0  # when the newest of the reports came that speak against it
        self._mute_since: float | None = None
        self._resigned = False  # that its page fails is held against it no more
        self._probed = False  # handed out since the last report that spoke against it
        self._wait, self._released = FIRST_PROBE, -math.inf

    def probe(self, now: float) -> None:
        """It was handed out until ``now`` although it is caught; if that was due, the next one is due later."""
        if self.caught and self.caught.probed and now >= self.probe_at:
            # Hand-outs become known late: a report since then may have shown already what came of it
            self._probed = self._worst < self.probe_at
            self._wait = min(2 * self._wait, LAST_PROBE)
            self.probe_at = now + self._wait

    def observe(self, reading: Reading) -> None:
        """A new report. An alarm and a "bye" say nothing: their metrics may be those of the report before."""
        if reading.alarm or reading.gone:
            return
        before, self._newest = self._newest, reading
        risen = _risen(before, reading) if before is not None else None
        finding = self._judge(before, reading, risen)
        if finding is not None:
            self._speak_against(finding, reading.received)
        elif self.caught is None:
            if risen is not False or reading.received - self.since >= MEMORY:
                self.finding, self._ill, self.handed = None, 0, 0
        elif risen or self._probed or self.caught is not FAILING:  # errors of who gets nothing can't rise
            self._well += 1
            if self._well >= RELEASE:
                self._release(reading.received)

    def _judge(self, before: Reading | None, reading: Reading, risen: bool | None) -> Finding | None:
        """What this report says against it; ``risen``: whether requests came, None if that is not known."""
        metrics = reading.metrics
        waiting = metrics.get("listen_queue")
        if waiting is not None:
            self._listened = True
        if "requests_total" not in metrics:
            return self._without_status(waiting, reading.received)
        self._had, self._resigned, self._mute_since = True, False, None
        if risen is not False or before is None:
            return None
        if metrics.get("errors_total", 0.0) > before.metrics.get("errors_total", math.inf):
            return FAILING
        if waiting and waiting >= before.metrics.get("listen_queue", math.inf):
            return CLOGGED
        return None

    def _without_status(self, waiting: float | None, now: float) -> Finding | None:
        if not self._had:
            return None
        if waiting != 0:
            self._mute_since = None
            if waiting is None:
                return DEAD if self._listened else MUTE
            return STUCK
        # Somebody listens and accepts. For a while that is no proof of service; then the page has been switched off
        self._mute_since = now if self._mute_since is None else self._mute_since
        if not self._resigned and now - self._mute_since >= BELIEVED:
            self._resigned = True
            self._release(now)
        return None if self._resigned else MUTE

    def _speak_against(self, finding: Finding, now: float) -> None:
        self._well, self._probed = 0, False
        if not self._ill:
            self.since = now
        self._ill += 1
        self.finding, self._worst = finding, now
        if self.caught is None and (self._ill < finding.reports or self.handed < finding.handed):
            return
        if not finding.probed:
            self.probe_at = math.inf
        elif self.probe_at == math.inf:
            if now - self._released > LAST_PROBE:
                self._wait = FIRST_PROBE
            self.probe_at = now + self._wait
        self.caught = finding

    def _release(self, now: float) -> None:
        if self.caught:
            self._released = now
        self.finding, self.caught, self.probe_at, self.handed = None, None, math.inf, 0
        self._ill = self._well = 0


def _risen(before: Reading, reading: Reading) -> bool | None:
    """Whether more requests came than the agent's own questions, one each interval; None if that can't be told."""
    now, then = reading.metrics.get("requests_total"), before.metrics.get("requests_total")
    if now is None or then is None or now < then:
        return None
    return now - then > max(1, round((reading.received - before.received) / reading.interval))
