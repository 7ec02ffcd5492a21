"""Build a simulation study from the options: the farm, the preset, and the settings that override them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError
from lbdns_tools.sim import scenario_parsers
from lbdns_tools.sim.farm_estimate import FarmEstimate, estimate_farm
from lbdns_tools.sim.policy_replay import simulated
from lbdns_tools.sim.recording_format import Recording
from lbdns_tools.sim.request_workloads import WORKLOADS
from lbdns_tools.sim.simulated_farm_file import read_farm
from lbdns_tools.sim.simulation_presets import DEFAULT_POLICIES, DEFAULT_SEEDS, PRESETS, SimulationStudy
from lbdns_tools.sim.simulation_scenario import Scenario, SimulatedClients

LEAST_RECORD: Final = 2.0  # s: below it there is nothing to see


@dataclass(frozen=True, slots=True)
class RequestedStudy:
    """The study that a command line requests; options that were not given are None or empty."""

    servers: str | None = None
    preset: str | None = None
    recording: Recording | None = None  # read from a running lbdns or from a file
    replays: bool = False  # whether its queries are replayed, not only its farm taken
    workloads: tuple[str, ...] = ()
    loads: tuple[float, ...] = ()
    rate: float | None = None
    clients: tuple[SimulatedClients, ...] = ()
    policies: tuple[str, ...] = ()
    seeds: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)  # of Scenario, as they are


def make_study(wanted: RequestedStudy) -> SimulationStudy:
    """Return the study to run. Raises ConfigError."""
    study = _base(wanted)
    scenarios = _grid(study.scenarios, wanted)
    for scenario in scenarios:
        _check(scenario)
    return SimulationStudy(scenarios, wanted.policies or study.policies, wanted.seeds or study.seeds, study.notes)


def _base(wanted: RequestedStudy) -> SimulationStudy:
    """The farm, and the preset that happens to it."""
    study = SimulationStudy((), DEFAULT_POLICIES, DEFAULT_SEEDS)
    if wanted.preset is not None:
        if wanted.preset not in PRESETS:
            raise ConfigError(f"--preset: there is no preset {wanted.preset!r}{nearest(wanted.preset, PRESETS)}")
        study = PRESETS[wanted.preset].study
    if wanted.servers is not None and wanted.servers.endswith(".toml"):
        scenarios = read_farm(Path(wanted.servers))
        if wanted.preset is None:
            return replace(study, scenarios=scenarios)
        return replace(study, scenarios=_distinct([replace(s, servers=scenarios[0].servers) for s in study.scenarios]))
    if wanted.servers is not None:
        try:
            servers = scenario_parsers.parse_servers(wanted.servers)
        except ValueError as error:
            raise ConfigError(f"--servers: {error}") from None
        scenarios = study.scenarios or (Scenario(servers),)
        study = replace(study, scenarios=_distinct([replace(s, servers=servers) for s in scenarios]))
    if wanted.recording is not None:
        study = _fitted(study, wanted, wanted.recording)
    if not study.scenarios:
        raise ConfigError("a farm is required: --servers 1.1x1,0.7x1,2x2, --preset NAME, --from URL or --replay FILE")
    return study


def _fitted(study: SimulationStudy, wanted: RequestedStudy, recording: Recording) -> SimulationStudy:
    if len(wanted.workloads) > 1:
        raise ConfigError("--workload: --from and --replay accept only one workload, for which they estimate speeds")
    workload = (wanted.workloads or (Scenario(()).workload,))[0]
    found: FarmEstimate = estimate_farm(recording, WORKLOADS[workload].mean)
    notes = (*study.notes, *found.notes, f"sizes of requests: unknown from reports; assuming --workload {workload}")
    if wanted.servers is None:
        scenarios = study.scenarios or (Scenario(found.servers, workload, rate=found.rate, interval=found.interval),)
        study = replace(study, scenarios=_distinct([replace(s, servers=found.servers) for s in scenarios]), notes=notes)
    if wanted.replays:
        if recording.seconds < LEAST_RECORD:
            raise ConfigError(
                f"--replay: the recording must be at least {LEAST_RECORD:g} s long, not {recording.seconds:.1f} s"
            )
        if any(clients.kind == "closed" for clients in wanted.clients):
            raise ConfigError(
                "--clients: closed clients cannot be combined with --replay, since they do not use recorded times"
            )
        study = replace(study, scenarios=_distinct([simulated(recording, s) for s in study.scenarios]))
    return study


def _grid(scenarios: Sequence[Scenario], wanted: RequestedStudy) -> tuple[Scenario, ...]:
    """The scenarios with every workload, load and kind of clients that was said, and all else that was said."""
    if wanted.loads or wanted.rate is not None:
        scenarios = [replace(scenario, rate=wanted.rate) for scenario in scenarios]
    for name, values in (("workload", wanted.workloads), ("load", wanted.loads), ("clients", wanted.clients)):
        if values:
            scenarios = [scenario for value in values for scenario in _having(scenarios, name, value)]
    return _distinct([_without_rate(replace(scenario, **wanted.fields)) for scenario in scenarios])


def _without_rate(scenario: Scenario) -> Scenario:
    """Clients that wait for responses have no rate: several loads are the same scenario."""
    return replace(scenario, load=Scenario(()).load, rate=None) if scenario.clients.kind == "closed" else scenario


def _having(scenarios: Sequence[Scenario], name: str, value: Any) -> tuple[Scenario, ...]:
    """Those of the scenarios that have this value; if none has, all of them with it."""
    having = tuple(scenario for scenario in scenarios if getattr(scenario, name) == value)
    return having or _distinct([replace(scenario, **{name: value}) for scenario in scenarios])


def _distinct(scenarios: Sequence[Scenario]) -> tuple[Scenario, ...]:
    """An override can make two of a preset's scenarios the same."""
    found: list[Scenario] = []
    for scenario in scenarios:
        if scenario not in found:
            found.append(scenario)
    return tuple(found)


def _check(scenario: Scenario) -> None:
    try:
        scenario_parsers.check(scenario)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    for outage in scenario.outages:
        if outage.start >= scenario.end:
            raise ConfigError(f"kill or hang: {outage.server}@{outage.start:g}: the run is over at {scenario.end:g} s")


def load_of(scenario: Scenario) -> float | None:
    """The load of a scenario as a share of what its servers can carry; None for clients that wait for responses."""
    if scenario.clients.kind == "closed" or scenario.arrivals is not None:
        return None
    if scenario.rate is None:
        return scenario.load
    capacity = math.fsum(server.capacity for server in scenario.servers)
    return scenario.rate * WORKLOADS[scenario.workload].mean / capacity
