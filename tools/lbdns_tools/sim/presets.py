"""Ready studies: the farms and workloads that policies are judged on, and what goes wrong on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from lbdns_collector.score import THESIS_TERMS
from lbdns_tools.sim.farms import FARMS
from lbdns_tools.sim.scenario import Clients, OtherWork, Outage, Scenario, ServerSpec, Surge
from lbdns_tools.sim.workloads import WORKLOADS

DEFAULT_POLICIES: Final = ("best", "round_robin", "oracle")
DEFAULT_SEEDS: Final = 3


@dataclass(frozen=True, slots=True)
class Study:
    """What is to be run: each scenario under each policy with each seed. ``notes`` are told beside the figures."""

    scenarios: tuple[Scenario, ...]
    policies: tuple[str, ...] = DEFAULT_POLICIES
    seeds: int = DEFAULT_SEEDS
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preset:
    sentence: str
    study: Study


LOADS: Final = (0.5, 0.7, 0.85, 0.95)

#: requests/s that the three servers of 1999 carried with 100 clients, by the better way of choosing
_CARRIED_1999: Final[Mapping[str, float]] = MappingProxyType({"html": 219.12, "cgi": 93.46, "mix": 147.01})
_NAMES_1999: Final = ("bilbo", "frodo", "gandalf")
_CLIENTS_1999: Final = (20, 40, 60, 80, 100)
_NOTES_1999: Final = (
    "measured in 1999, requests/s, round robin -> best score:",
    "html 20 clients: 151 -> 165, 60: 191 -> 206, 100: 204 -> 219;",
    "cgi 20: 69 -> 78, 60: 88 -> 92, 100: 89 -> 93; mix 20: 102 -> 112, 60: 130 -> 142, 100: 138 -> 147;",
    "best / round robin over all 27 points: 1.036 to 1.122, mean 1.078",
)


def _sweep(farm: Sequence[ServerSpec]) -> Study:
    servers = tuple(farm)
    return Study(tuple(Scenario(servers, workload, load) for workload in WORKLOADS for load in LOADS))


def _servers_1999(workload: str) -> tuple[ServerSpec, ...]:
    """T3's proportions, as fast as three machines of 1999 were with these pages."""
    servers = FARMS["T3"]
    factor = _CARRIED_1999[workload] * WORKLOADS[workload].mean / sum(server.capacity for server in servers)
    return tuple(
        replace(server, name=name, speed=server.speed * factor)
        for name, server in zip(_NAMES_1999, servers, strict=True)
    )


def _testbed_1999() -> Study:
    scenarios = tuple(
        Scenario(_servers_1999(workload), workload, clients=Clients("closed", count), warm_up=20, duration=100)
        for workload in _CARRIED_1999
        for count in _CLIENTS_1999
    )
    return Study(scenarios, ("best", "best_score", "round_robin"), DEFAULT_SEEDS, _NOTES_1999)


#: The score of 1999 without its term for requests/s: with it, whoever is busiest wins for ever, which is worse
_LOAD_ALONE: Final = {metric: term for metric, term in THESIS_TERMS.items() if metric != "requests_per_s"}

T3, H10, U10 = FARMS["T3"], FARMS["H10"], FARMS["U10"]

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "T3": Preset("Three unlike servers, every workload, load 0.5 to 0.95.", _sweep(T3)),
        "H10": Preset("Ten unlike servers of 1 to 8 cores, every workload, load 0.5 to 0.95.", _sweep(H10)),
        "U10": Preset("Ten servers alike, every workload, load 0.5 to 0.95.", _sweep(U10)),
        "testbed-1999": Preset(
            "The three servers of 1999: 20 to 100 clients that never rest, looking up every 5 s.", _testbed_1999()
        ),
        "herding": Preset(
            "Ten servers alike and the highest score for everybody, of a score of load alone: all run to the emptiest.",
            Study(
                (Scenario(U10, load=0.5, score="load alone", terms=_LOAD_ALONE),), ("best_score", "best", "round_robin")
            ),
        ),
        "flash-crowd": Preset(
            "Three unlike servers at load 0.4, and for half a minute twice as many requests.",
            Study((Scenario(T3, load=0.4, surges=(Surge(60.0, 90.0, 2.0),)),)),
        ),
        "caching-resolvers": Preset(
            "Requests through 200 resolvers that keep each answer for 5 to 30 s although they were told not to.",
            Study(tuple(Scenario(farm, load=0.7, clients=Clients("caches", 200)) for farm in (T3, H10, U10))),
        ),
        "dying-server": Preset(
            "Ten servers alike at load 0.7, one of which dies after a minute and comes back after another.",
            Study((Scenario(U10, load=0.7, outages=(Outage("s1", 60.0, 120.0),)),)),
        ),
        "hanging-server": Preset(
            "The same, but only the web server dies: its agent goes on reporting, of an idle machine.",
            Study((Scenario(U10, load=0.7, outages=(Outage("s1", 60.0, 120.0, service_only=True),)),)),
        ),
        "background-load": Preset(
            "Three unlike servers at load 0.5, the largest with four tasks of other work for a minute.",
            Study((Scenario(T3, load=0.5, other_work=(OtherWork("s3", 60.0, 120.0, 4.0),)),)),
        ),
        "report-loss": Preset(
            "Ten unlike servers at load 0.85 with no, 2 and 10 % of the reports lost.",
            Study(tuple(Scenario(H10, loss=loss) for loss in (0.0, 0.02, 0.1))),
        ),
        "dns-servers": Preset(
            "Ten unlike servers at load 0.85 behind one, two and four DNS servers that don't know of each other.",
            Study(tuple(Scenario(H10, dns_servers=servers) for servers in (1, 2, 4))),
        ),
    }
)
