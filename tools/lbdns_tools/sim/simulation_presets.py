"""The preset studies of ``lbdns-sim --preset``, which compare policies with various farms, workloads and failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from lbdns.scores.thesis import THESIS
from lbdns_tools.sim.simulated_requests import WORKLOADS
from lbdns_tools.sim.simulation_scenario import FARMS, OtherWork, Outage, Scenario, ServerSpec, SimulatedClients, Surge

DEFAULT_POLICIES: Final = ("best", "round_robin", "oracle")
DEFAULT_SEEDS: Final = 3


@dataclass(frozen=True, slots=True)
class SimulationStudy:
    """A study that runs each scenario with each policy and each seed. ``notes`` are printed with the results."""

    sentence: str  # the description of a preset in --preset list
    scenarios: tuple[Scenario, ...]
    policies: tuple[str, ...] = DEFAULT_POLICIES
    seeds: int = DEFAULT_SEEDS
    notes: tuple[str, ...] = ()


LOADS: Final = (0.5, 0.7, 0.85, 0.95)

#: requests/s that the three servers of 1999 carried with 100 clients, under the better of two policies
_CARRIED_1999: Final[Mapping[str, float]] = {"html": 219.12, "cgi": 93.46, "mix": 147.01}
_NOTES_1999: Final = (
    "Requests/s measured in 1999 with round robin -> with the best score:",
    "html: 151 -> 165 with 20 clients, 191 -> 206 with 60 clients, 204 -> 219 with 100 clients",
    "cgi: 69 -> 78 with 20 clients, 88 -> 92 with 60 clients, 89 -> 93 with 100 clients",
    "mix: 102 -> 112 with 20 clients, 130 -> 142 with 60 clients, 138 -> 147 with 100 clients",
    "in all 27 measurements, the best score achieved 1.036 to 1.122 times the rate of round robin (mean: 1.078)",
)


def _sweep(farm: str) -> tuple[Scenario, ...]:
    return tuple(Scenario(FARMS[farm], workload, load) for workload in WORKLOADS for load in LOADS)


def _servers_1999(workload: str) -> tuple[ServerSpec, ...]:
    """Return the servers of farm T3. Their speeds are scaled so that, with ``workload``, the farm's capacity is that of
    the machines of 1999."""
    servers = FARMS["T3"]
    factor = _CARRIED_1999[workload] * WORKLOADS[workload].mean / Scenario(servers).capacity
    return tuple(
        replace(server, name=name, speed=server.speed * factor)
        for name, server in zip(("bilbo", "frodo", "gandalf"), servers, strict=True)
    )


def _testbed_1999() -> tuple[Scenario, ...]:
    return tuple(
        Scenario(_servers_1999(workload), workload, clients=SimulatedClients("closed", count), warm_up=20, duration=100)
        for workload in _CARRIED_1999
        for count in (20, 40, 60, 80, 100)
    )


#: The score of 1999 without its term for requests/s; with this term, the busiest server would win forever
_LOAD_ALONE: Final = {metric: term for metric, term in THESIS.terms.items() if metric != "requests_per_s"}


def _site(name: str, servers: int) -> tuple[ServerSpec, ...]:
    """Return equal servers in one site."""
    return tuple(ServerSpec(f"{name}{number}", 1.0, 2, site=name) for number in range(1, servers + 1))


#: Three sites, the largest of which has more than half of the servers
SITES: Final = (*_site("berlin", 6), *_site("paris", 3), *_site("tokyo", 2))
#: lbdns's rule; the nearest site whatever its load; and, without regard to sites, the same policy and a rotation
SITE_POLICIES: Final = ("best", "best:nearest", "best:anywhere", "round_robin:anywhere")

#: Four servers, and a backup pool of three
WITH_BACKUP: Final = tuple(ServerSpec(f"s{n}", 1.0, 2, backup=n > 4) for n in range(1, 8))

T3, H10, U10 = FARMS["T3"], FARMS["H10"], FARMS["U10"]

PRESETS: Final[Mapping[str, SimulationStudy]] = {
    "T3": SimulationStudy("Three unequal servers with every workload, at loads from 0.5 to 0.95.", _sweep("T3")),
    "H10": SimulationStudy("Ten unequal servers with every workload, at loads from 0.5 to 0.95.", _sweep("H10")),
    "U10": SimulationStudy("Ten identical servers with every workload, at loads from 0.5 to 0.95.", _sweep("U10")),
    "testbed-1999": SimulationStudy(
        "The three servers from 1999 with 20 to 100 clients that look up the name every 5 s and never pause.",
        _testbed_1999(),
        ("best", "best_score", "round_robin"),
        notes=_NOTES_1999,
    ),
    "herding": SimulationStudy(
        "Ten identical servers. With a score based only on load, 'best_score' sends all clients to the least loaded "
        "server.",
        (Scenario(U10, load=0.5, score="load alone", terms=_LOAD_ALONE),),
        ("best_score", "best", "round_robin"),
    ),
    "flash-crowd": SimulationStudy(
        "Three unequal servers at load 0.4. The request rate doubles for half a minute.",
        (Scenario(T3, load=0.4, surges=(Surge(60.0, 90.0, 2.0),)),),
    ),
    "caching-resolvers": SimulationStudy(
        "Clients behind 200 resolvers that cache each answer for 5 to 30 s despite a TTL of 0.",
        tuple(Scenario(farm, load=0.7, clients=SimulatedClients("caches", 200)) for farm in (T3, H10, U10)),
    ),
    "dying-server": SimulationStudy(
        "Ten identical servers at load 0.7. One server fails after a minute and recovers a minute later.",
        (Scenario(U10, load=0.7, outages=(Outage("s1", 60.0, 120.0),)),),
    ),
    "hanging-server": SimulationStudy(
        "Like 'dying-server', but only the web server fails. The agent continues to report an idle host.",
        (Scenario(U10, load=0.7, outages=(Outage("s1", 60.0, 120.0, service_only=True),)),),
    ),
    "background-load": SimulationStudy(
        "Three unequal servers at load 0.5. The largest server also runs four other tasks for a minute.",
        (Scenario(T3, load=0.5, other_work=(OtherWork("s3", 60.0, 120.0, 4.0),)),),
    ),
    "report-loss": SimulationStudy(
        "Ten unequal servers at load 0.85, with 0 %, 2 % or 10 % of all reports lost.",
        tuple(Scenario(H10, loss=loss) for loss in (0.0, 0.02, 0.1)),
    ),
    "dns-servers": SimulationStudy(
        "Ten unequal servers at load 0.85, with one, two or four independent DNS servers.",
        tuple(Scenario(H10, dns_servers=servers) for servers in (1, 2, 4)),
    ),
    "backup": SimulationStudy(
        "A pool of four servers with a backup pool. The request rate doubles for 50 s; later, the whole pool fails for "
        "30 s.",
        (
            Scenario(
                WITH_BACKUP,
                load=0.35,
                duration=200.0,
                surges=(Surge(40.0, 90.0, 2.0),),
                outages=tuple(Outage(server.name, 130.0, 160.0) for server in WITH_BACKUP if not server.backup),
            ),
        ),
        ("best", "best:alone", "best:anywhere"),
    ),
    "full-site": SimulationStudy(
        "Three sites at load 0.45. The clients near one site send 2.2 times as many requests for a minute.",
        (Scenario(SITES, load=0.45, surges=(Surge(40.0, 100.0, 2.2, "paris"),)),),
        SITE_POLICIES,
    ),
    "dying-site": SimulationStudy(
        "Three sites at load 0.35. The site with most servers fails after 50 s and recovers 50 s later.",
        (Scenario(SITES, load=0.35, outages=(Outage("berlin", 50.0, 100.0),)),),
        SITE_POLICIES,
    ),
    "overloaded-sites": SimulationStudy(
        "Three sites, all of which get more requests than they can serve, at a total load of 1.1.",
        (Scenario(SITES, load=1.1, duration=60.0),),
        SITE_POLICIES,
    ),
}
