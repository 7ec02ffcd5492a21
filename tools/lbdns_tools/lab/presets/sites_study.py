"""The study ``sites``, which compares four ways to choose among web hosts at three sites with different distances.

The ways are round robin and ``best`` among all hosts, ``best`` among the hosts of the client's own site only
(``nearest``), and ``best`` with sites, where clients leave their site as its load requires. The loads are shares
of what each site carries: first the same at all sites, and then more than one site carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.farm.lab_farm import BEST_SITES, ZONE, LabFarm, WebHost, site_owner
from lbdns_tools.lab.loads.farm_load import CGI, FARM, FarmLoad, chosen, dns_name
from lbdns_tools.lab.measuring import site_measurement
from lbdns_tools.lab.measuring.case_measurement import MeasuredCase, MeasuredOutcome
from lbdns_tools.lab.report.sites_report import EVEN, OVERLOADED, sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.load_plan import OpenLoop

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

NEAREST, SITES = "nearest", "best_sites"
SELECTIONS: Final = ("round_robin", NEAREST, "best", SITES)
#: A strong and a weak host at each site. With the usual period of 100 ms, waiting for CPU quotas would hide the
#: distances; with a much shorter one, the kernel's CPUs keep more of a quota to themselves than the weak hosts have
SITE_FARM: Final = LabFarm(
    tuple(
        host
        for site in ("berlin", "paris", "tokyo")
        for host in (WebHost(f"{site}1", 0.2, site=site), WebHost(f"{site}2", 0.1, site=site))
    ),
    clients=3,
    cpu_period=0.05,
)
#: Request rates as shares of the rate that each site carries: of the first site, and of each other one
LOADS: Final = {EVEN: (0.5, 0.5), OVERLOADED: (1.3, 0.25)}
#: s; clients move between sites by the load of the last 10 s
WARM_UP_S, QUICK_WARM_UP_S = 20.0, 10.0
LOAD_S, QUICK_LOAD_S = 40.0, 7.0


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps. Raises ConfigError if the farm has no sites."""
    if farm and len(farm.sites) < 2:
        raise ConfigError("--farm: the study sites needs at least two sites; add a site to each [[host]]")
    farm = farm or SITE_FARM
    selections = chosen(settings.selections, SELECTIONS, SELECTIONS)
    return StudyPlan({FARM: farm}, tuple(_steps(settings, selections)), partial(sections, farm=farm))


def _steps(settings: StudySettings, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    if settings.warm_up_s is None:
        settings = replace(settings, warm_up_s=QUICK_WARM_UP_S if settings.quick else WARM_UP_S)
    loading = FarmLoad(settings, CGI, "cgi")
    seconds = loading.seconds(LOAD_S, QUICK_LOAD_S)
    yield loading.learning_step()
    yield FarmLoad(replace(settings, warm_up_s=None), CGI, "cgi", carried=loading.carried).calibration_step("best")
    for load in (OVERLOADED,) if settings.quick else LOADS:
        yield from loading.steps(selections, load, seconds, partial(_measured, loading, seconds, load))


def _measured(
    loading: FarmLoad, seconds: float, load: str, lab: Lab, selection: str, repetition: int
) -> Iterable[MeasuredOutcome]:
    first, others = LOADS[load]
    clients = [machine for machine in lab.machines.values() if machine.kind == "client"]
    planned = {}
    for client in clients:
        share = first if client.site == lab.farm.sites[0] else others
        rate = share * carried_by(lab.farm, client.site, loading.carried["best"])
        rate /= sum(other.site == client.site for other in clients)
        planned[client.name] = loading.planned(target_of(selection, client.site), OpenLoop((rate,), seconds, "poisson"))
    lab.settle()
    case = MeasuredCase(selection, loading.workload, "connection", target_of(selection, "*"), FARM, {"part": load})
    yield from site_measurement.measure(lab, case, planned, repetition)


def carried_by(farm: LabFarm, site: str, total: float) -> float:
    """Return the request rate that a site carries, if the whole farm carries ``total``."""
    return total * sum(host.cpu for host in farm.hosts_at(site)) / farm.cpu


def target_of(selection: str, site: str) -> str:
    """Return the DNS name that the clients at ``site`` use."""
    if selection == NEAREST:
        return f"{site_owner(site)}.{ZONE}"
    return f"{BEST_SITES}.{ZONE}" if selection == SITES else dns_name(selection)


PRESET: Final = StudyPreset(
    "sites",
    "Sites: near and far web servers, an even load, and a site that is overloaded",
    """Compare 'best' with sites with round robin, with 'best' among all hosts, and with the hosts of the nearest site
    only, while clients are near (5 ms) to some web hosts and far (60 ms) from the others.""",
    plan,
)
