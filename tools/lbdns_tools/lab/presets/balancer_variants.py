"""The parts of the study ``balancers`` that vary the balancers' settings.

``limit``: the connections that HAProxy opens to each host are limited to 6 and 10, as in section 5.2.8 of the 2012
study. ``kept``: nginx reuses its connections to hosts that permit it, or opens one per request. ``https``: the
concurrency sweep over HTTPS, with TLS at the hosts, at the balancer, or passed through by HAProxy in TCP mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import (
    DIRECT,
    FRONTS,
    KEEPING_FRONTS,
    LIMITED_FRONTS,
    OVERHEAD_S,
    STATIC,
    TIMEOUT_S,
    TLS_FRONTS,
    FarmLoad,
    reached,
)
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.study_plan import StudySettings, StudyStep
from lbdns_tools.load.load_plan import ClosedLoop

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

#: Farms with other hosts' settings than the study's usual farm; their names are also those of the parts
KEPT, HTTPS = "kept", "https"
#: What each part compares
LIMITED: Final = ("best", "haproxy", *LIMITED_FRONTS)
KEEPING: Final = ("nginx", *KEEPING_FRONTS)
SECURED: Final = (DIRECT, "round_robin", "best", *TLS_FRONTS)
QUICK_SECURED: Final = ("best", *TLS_FRONTS)

LIMIT_CLIENTS: Final = (20, 60)
QUICK_LIMIT_CLIENTS: Final = (60,)
KEPT_CLIENTS: Final = (20, 100, 300)
QUICK_KEPT_CLIENTS: Final = (20,)
HTTPS_CLIENTS: Final = (1, 101, 301, 601)
QUICK_HTTPS_CLIENTS: Final = (101,)
REQUESTS: Final = 5000
QUICK_REQUESTS: Final = 600
CGI_REQUESTS: Final = 2000
QUICK_CGI_REQUESTS: Final = 300
#: Requests/s that such a farm serves; used to estimate durations
PAGE_RATE, CGI_RATE, TLS_RATE = 1500.0, 150.0, 400.0
START_S: Final = 0.7  # s until a balancer forwards pages


@dataclass(frozen=True, slots=True)
class VariantPart:
    """A part of the study: each number of clients sends a total of ``requests``, with each of the selections.

    ``name`` is also the value of the column ``part``. ``rate`` is the number of requests/s that is expected.
    """

    name: str
    farm: str
    loading: FarmLoad
    selections: tuple[str, ...]
    clients: tuple[int, ...]
    requests: int
    rate: float

    def steps(self, repetitions: int) -> Iterator[StudyStep]:
        if not self.selections:
            return
        if "best" in self.selections:
            yield self.loading.learning_step(self.farm, f"the part {self.name}")
        for repetition in range(1, repetitions + 1):
            for count in self.clients:
                for selection in self.selections:
                    seconds = max(self.requests, count) / self.rate + OVERHEAD_S
                    seconds += START_S if selection in FRONTS else 0.0
                    do = partial(self._measure, selection, count, repetition)
                    yield StudyStep(f"{self.name}, {count} concurrent clients, {selection}", self.farm, seconds, do)

    def _measure(self, selection: str, count: int, repetition: int, lab: Lab) -> Iterator[MeasuredOutcome]:
        load, more = ClosedLoop(count, requests=max(self.requests, count)), {"part": self.name}
        with reached(lab, selection, FRONTS.get(selection)) as target:
            yield self.loading(lab, selection, load, more, farm=self.farm, target=target, repetition=repetition)


def farms(farm: LabFarm) -> dict[str, LabFarm]:
    """Return the farms of the parts ``kept`` and ``https``: the same hosts, with other settings of Apache."""
    return {KEPT: replace(farm, keep_alive=True), HTTPS: replace(farm, tls=True)}


def usual(quick: bool) -> tuple[str, ...]:
    """Return the selections that only these parts compare."""
    return tuple(name for name in (*LIMITED, *KEEPING, *(QUICK_SECURED if quick else SECURED)) if name in FRONTS)


def steps(settings: StudySettings, selections: tuple[str, ...], usual_farm: str) -> Iterator[StudyStep]:
    """Yield the steps of all parts with those of the ``selections`` that each part compares."""
    quick = settings.quick
    requests, cgi_requests = (QUICK_REQUESTS, QUICK_CGI_REQUESTS) if quick else (REQUESTS, CGI_REQUESTS)
    # As many requests as a client sends are counted, without a warm-up
    settings = replace(settings, warm_up_s=0.0)
    page, cgi = FarmLoad(settings, STATIC, "1k", TIMEOUT_S), FarmLoad(settings, "", "cgi", TIMEOUT_S)
    clients: Mapping[str, tuple[int, ...]] = {
        "limit": QUICK_LIMIT_CLIENTS if quick else LIMIT_CLIENTS,
        KEPT: QUICK_KEPT_CLIENTS if quick else KEPT_CLIENTS,
        HTTPS: QUICK_HTTPS_CLIENTS if quick else HTTPS_CLIENTS,
    }
    secured = replace(page, tls=True)
    parts = (
        VariantPart("limit", usual_farm, cgi, LIMITED, clients["limit"], cgi_requests, CGI_RATE),
        VariantPart(KEPT, KEPT, page, KEEPING, clients[KEPT], requests, PAGE_RATE),
        VariantPart(HTTPS, HTTPS, secured, QUICK_SECURED if quick else SECURED, clients[HTTPS], requests, TLS_RATE),
    )
    for part in parts:
        compared = tuple(each for each in part.selections if each in selections)
        counts = settings.clients or part.clients
        yield from replace(part, selections=compared, clients=counts).steps(settings.repetitions)
