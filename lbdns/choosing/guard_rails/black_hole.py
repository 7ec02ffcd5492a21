"""Black-hole detection: uses reported metrics to find members that are selected but serve nothing. Sans-I/O.

When a web server is dead, its host is idle, so the member's score and load look like those of the best member. Rules:

1. A member is quarantined if its agent still reports, but can no longer read the server-status page. This rule applies
   even to a member that is not being selected, because quarantining such a member costs nothing. The agent's own
   request serves as the probe: if the agent can read the page's counters again, the quarantine ends.
2. A member is quarantined if it is selected and two conditions are met: it serves only the agent's own requests, and
   meanwhile its error count rises or connections wait to be accepted. A lack of requests alone proves nothing, because
   resolvers cache names and browsers cache pages. A quarantined member is occasionally selected as a probe, because
   only traffic can show that it works.
3. A member that has never reported its requests is never quarantined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from lbdns.model.snapshot import Reading

RELEASE: Final = 2  # consecutive good reports that end a quarantine
FIRST_PROBE: Final = 5.0  # s from quarantine to the first probe; the wait doubles with each further probe ...
LAST_PROBE: Final = 60.0  # ... up to this many seconds
STATUS_PAGE_COUNTS: Final = 60.0  # s for which a failing status page counts against a server that accepts connections
MEMORY: Final = 60.0  # s for which errors count against a member with so little traffic that most reports show nothing


@dataclass(frozen=True, slots=True)
class Symptom:
    """A symptom that reports can show, and the evidence required to quarantine a member with this symptom."""

    text: str
    reports: int  # consecutive reports that must show it
    selections: int = 0  # selections that must have been made meanwhile
    certain: bool = False  # nothing else can be the reason
    probed: bool = False  # successful probes end the quarantine


# Two signs at once: the status page refuses connections, and no socket listens. Clients would be refused as well. A web
# server that is only restarting is back after two reports
DEAD: Final = Symptom("nothing listens on its server-status port", reports=1, certain=True)
# A busy server that takes 2 s for its status page misses two reports in a row, but not three
STUCK: Final = Symptom("its server-status page cannot be read, and connections are waiting", reports=3)
MUTE: Final = Symptom("its server-status page cannot be read", reports=3)
CLOGGED: Final = Symptom("it serves no requests, and connections are waiting", reports=2, selections=3, probed=True)
FAILING: Final = Symptom("it serves no requests, and its errors are rising", reports=2, selections=3, probed=True)


class BlackHoleWatch:
    """Collects evidence against one member, report by report.

    The caller passes every new reading to ``observe``, and adds the member's selections to ``selections``. If the
    member is selected while ``caught`` is set, the caller must call ``probed``.
    """

    __slots__ = (
        "_bad", "_counted", "_good", "_listened", "_mute_since", "_newest", "_newest_bad", "_page_ignored", "_released",
        "_wait", "_was_probed", "caught", "probe_at", "selections", "since", "symptom",
    )  # fmt: skip

    def __init__(self) -> None:
        self.symptom: Symptom | None = None  # shown by its newest reports
        self.caught: Symptom | None = None  # the reason to quarantine it
        self.since = 0.0  # monotonic seconds: the first of the bad reports
        self.selections = 0  # since the last good report; the caller counts them
        self.probe_at = math.inf  # monotonic seconds: when the member must be selected once
        self._newest: Reading | None = None
        self._counted = False  # it has reported its requests before
        self._listened = False  # it has reported its listen queue before
        self._bad = self._good = 0  # consecutive reports
        self._newest_bad = 0.0  # monotonic seconds
        self._mute_since: float | None = None
        self._page_ignored = False  # the failing status page no longer counts
        self._was_probed = False  # selected since the last bad report
        self._wait, self._released = FIRST_PROBE, -math.inf

    def probed(self, now: float) -> None:
        """Record that the member was selected despite its symptom; if a probe was due, schedule the next probe."""
        if self.caught and self.caught.probed and now >= self.probe_at:
            # Selections are counted late: a report since the probe may already show the probe's result
            self._was_probed = self._newest_bad < self.probe_at
            self._wait = min(2 * self._wait, LAST_PROBE)
            self.probe_at = now + self._wait

    def observe(self, reading: Reading) -> None:
        """Assess a new report. Alarms and "bye" reports are skipped, because they may repeat the previous metrics."""
        if reading.alarm or reading.gone:
            return
        before, self._newest = self._newest, reading
        served = _served(before, reading) if before is not None else None
        symptom = self._judge(before, reading, served)
        if symptom is not None:
            self._record(symptom, reading.received)
        elif self.caught is None:
            if served is not False or reading.received - self.since >= MEMORY:
                self.symptom, self._bad, self.selections = None, 0, 0
        elif served or self._was_probed or self.caught is not FAILING:  # without traffic, errors cannot rise
            self._good += 1
            if self._good >= RELEASE:
                self._release(reading.received)

    def _judge(self, before: Reading | None, reading: Reading, served: bool | None) -> Symptom | None:
        """Return the symptom that the current report shows, if any.

        ``served`` states whether requests were served (None if unknown).
        """
        metrics = reading.metrics
        waiting = metrics.get("listen_queue")
        if waiting is not None:
            self._listened = True
        if "requests_total" not in metrics:
            return self._without_status(waiting, reading.received)
        self._counted, self._page_ignored, self._mute_since = True, False, None
        if served is not False or before is None:
            return None
        if metrics.get("errors_total", 0.0) > before.metrics.get("errors_total", math.inf):
            return FAILING
        if waiting and waiting >= before.metrics.get("listen_queue", math.inf):
            return CLOGGED
        return None

    def _without_status(self, waiting: float | None, now: float) -> Symptom | None:
        if not self._counted:
            return None
        if waiting != 0:
            self._mute_since = None
            if waiting is None:
                return DEAD if self._listened else MUTE
            return STUCK
        # The server accepts connections. After a while the page has more likely been switched off than failed
        self._mute_since = now if self._mute_since is None else self._mute_since
        if not self._page_ignored and now - self._mute_since >= STATUS_PAGE_COUNTS:
            self._page_ignored = True
            self._release(now)
        return None if self._page_ignored else MUTE

    def _record(self, symptom: Symptom, now: float) -> None:
        self._good, self._was_probed = 0, False
        if not self._bad:
            self.since = now
        self._bad += 1
        self.symptom, self._newest_bad = symptom, now
        if self.caught is None and (self._bad < symptom.reports or self.selections < symptom.selections):
            return
        if not symptom.probed:
            self.probe_at = math.inf
        elif self.probe_at == math.inf:
            if now - self._released > LAST_PROBE:
                self._wait = FIRST_PROBE
            self.probe_at = now + self._wait
        self.caught = symptom

    def _release(self, now: float) -> None:
        if self.caught:
            self._released = now
        self.symptom, self.caught, self.probe_at, self.selections = None, None, math.inf, 0
        self._bad = self._good = 0


def _served(before: Reading, reading: Reading) -> bool | None:
    """Return whether the member served requests other than the agent's one request per interval, or None if unknown."""
    now, then = reading.metrics.get("requests_total"), before.metrics.get("requests_total")
    if now is None or then is None or now < then:
        return None
    return now - then > max(1, round((reading.received - before.received) / reading.interval))
