"""Builds a simulation study from a farm or a preset, and from settings that override the preset's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError
from lbdns_tools.sim.farm_estimate import estimate_farm
from lbdns_tools.sim.policy_replay import replayed_requests
from lbdns_tools.sim.recording_format import Recording
from lbdns_tools.sim.scenario_files import read_farm
from lbdns_tools.sim.scenario_parsers import parse_servers
from lbdns_tools.sim.simulated_dns import ALONE, NEAREST, split_rule
from lbdns_tools.sim.simulated_requests import ALL_WORKLOADS
from lbdns_tools.sim.simulation_presets import PRESETS, SimulationStudy
from lbdns_tools.sim.simulation_scenario import OtherWork, Outage, Scenario, SimulatedClients, Slowdown

SHORTEST_RECORDING: Final = 2.0  # s; a shorter recording shows nothing


@dataclass(frozen=True, slots=True)
class RequestedStudy:
    """The study requested on the command line. Omitted options are None or empty."""

    servers: str | None = None
    preset: str | None = None
    recording: Recording | None = None  # read from a running lbdns or from a file
    replays: bool = False  # whether the recorded queries are replayed, or only the farm is used
    workloads: tuple[str, ...] = ()
    loads: tuple[float, ...] = ()
    rate: float | None = None
    clients: tuple[SimulatedClients, ...] = ()
    policies: tuple[str, ...] = ()
    seeds: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)  # other fields of Scenario


def make_study(requested: RequestedStudy) -> SimulationStudy:
    """Return the study that the options in ``requested`` specify. Raises ConfigError."""
    study = _base(requested)
    scenarios = _grid(study.scenarios, requested)
    policies, seeds = requested.policies or study.policies, requested.seeds or study.seeds
    for scenario in scenarios:
        check_scenario(scenario)
        for policy in policies:
            _check_rule(policy, scenario)
    return replace(study, scenarios=scenarios, policies=policies, seeds=seeds)


def _check_rule(policy: str, scenario: Scenario) -> None:
    """Raise ConfigError if the rule that follows a policy, such as ``:nearest``, does not apply to the farm."""
    rule = split_rule(policy)[1]
    lacking = ""
    if rule == ALONE:
        lacking = "" if scenario.backup_members else "no backup"
    elif rule and not scenario.sites and (rule == NEAREST or not scenario.backup_members):
        lacking = "no sites" if rule == NEAREST else "no sites and no backup"
    if lacking:
        raise ConfigError(f"--policy: {policy}: the servers have {lacking}; list them in a file (--servers FILE)")


def _base(requested: RequestedStudy) -> SimulationStudy:
    study, preset = SimulationStudy("", ()), requested.preset
    if preset is not None:
        if preset not in PRESETS:
            raise ConfigError(f"--preset: there is no preset named {preset!r}{nearest(preset, PRESETS)}")
        study = PRESETS[preset]
    if requested.servers is not None and requested.servers.endswith(".toml"):
        scenarios = read_farm(Path(requested.servers))
        return replace(study, scenarios=scenarios) if preset is None else _with(study, servers=scenarios[0].servers)
    if requested.servers is not None:
        try:
            servers = parse_servers(requested.servers)
        except ValueError as error:
            raise ConfigError(f"--servers: {error}") from None
        study = _with(replace(study, scenarios=study.scenarios or (Scenario(servers),)), servers=servers)
    if requested.recording is not None:
        study = _fitted(study, requested, requested.recording)
    if not study.scenarios:
        raise ConfigError("a farm is required: specify --servers 1.1x1,2x2, --preset NAME, --from URL or --replay FILE")
    return study


def _fitted(study: SimulationStudy, requested: RequestedStudy, recording: Recording) -> SimulationStudy:
    if len(requested.workloads) > 1:
        raise ConfigError(
            "--workload: only one workload can be specified with --from or --replay, because estimates depend "
            "on the workload"
        )
    workload = (requested.workloads or (Scenario(()).workload,))[0]
    farm = estimate_farm(recording, ALL_WORKLOADS[workload].mean)
    notes = (*study.notes, *farm.notes, f"request sizes: unknown, assumed to follow --workload {workload}")
    if requested.servers is None:
        scenarios = study.scenarios or (Scenario(farm.servers, workload, rate=farm.rate, interval=farm.interval),)
        study = _with(replace(study, scenarios=scenarios, notes=notes), servers=farm.servers)
    if requested.replays:
        if recording.seconds < SHORTEST_RECORDING:
            least, seconds = SHORTEST_RECORDING, recording.seconds
            raise ConfigError(f"--replay: the recording must be at least {least:g} s long, not {seconds:.1f} s")
        if any(clients.kind == "closed" for clients in requested.clients):
            raise ConfigError(
                "--clients: closed-loop clients cannot be combined with --replay, because they ignore recorded times"
            )
        study = _with(study, **replayed_requests(recording))
    return study


def _with(study: SimulationStudy, **changes: Any) -> SimulationStudy:
    return replace(study, scenarios=_distinct([replace(scenario, **changes) for scenario in study.scenarios]))


def _grid(scenarios: Sequence[Scenario], requested: RequestedStudy) -> tuple[Scenario, ...]:
    """Return one scenario for each combination of the requested workloads, loads and clients. All other options apply
    to every scenario."""
    if requested.loads or requested.rate is not None:
        scenarios = [replace(scenario, rate=requested.rate) for scenario in scenarios]
    grid = {"workload": requested.workloads, "load": requested.loads, "clients": requested.clients}
    for name, values in grid.items():
        if values:
            scenarios = [scenario for value in values for scenario in _having(scenarios, name, value)]
    scenarios = [replace(scenario, **requested.fields) for scenario in scenarios]
    # Clients that wait for responses have no rate, so scenarios with different loads are the same
    return _distinct(
        [replace(s, load=Scenario(()).load, rate=None) if s.clients.kind == "closed" else s for s in scenarios]
    )


def _having(scenarios: Sequence[Scenario], name: str, value: Any) -> Sequence[Scenario]:
    """Return the scenarios whose field ``name`` equals ``value``.

    If no scenario matches, return copies of all scenarios with the field ``name`` set to ``value``.
    """
    having = [scenario for scenario in scenarios if getattr(scenario, name) == value]
    return having or _distinct([replace(scenario, **{name: value}) for scenario in scenarios])


def _distinct(scenarios: Sequence[Scenario]) -> tuple[Scenario, ...]:
    """Return the scenarios without duplicates. Options that override a preset's settings can make two scenarios
    identical."""
    found: list[Scenario] = []  # a list, because a scenario with a custom score cannot be hashed
    for scenario in scenarios:
        if scenario not in found:
            found.append(scenario)
    return tuple(found)


def check_scenario(scenario: Scenario) -> None:
    """Raise ConfigError if an event names an unknown server, or if an outage begins at or after the end of the run."""
    names = [server.name for server in scenario.servers]
    options: dict[str, Sequence[Outage | OtherWork | Slowdown]] = {
        "--kill, --hang or --hide-status": scenario.outages,
        "option --other-work": scenario.other_work,
        "option --slow": scenario.slowdowns,
    }
    if both := set(names).intersection(scenario.sites):
        raise ConfigError(f"a server and a site are both named {min(both)!r}; rename one of them")
    for option, events in options.items():
        known = [*names, *scenario.sites] if events is scenario.outages else names
        for name in (event.server for event in events):
            if name not in known:
                raise ConfigError(f"{option}: there is no server named {name!r}{nearest(name, known)}")
    for surge in scenario.surges:
        if surge.site and surge.site not in scenario.sites:
            raise ConfigError(f"--surge: there is no site named {surge.site!r}{nearest(surge.site, scenario.sites)}")
    for outage in scenario.outages:
        if outage.start >= scenario.end:
            raise ConfigError(
                f"--kill, --hang or --hide-status: {outage.server}@{outage.start:g}: the outage must begin before the "
                f"run ends at {scenario.end:g} s"
            )


def load_of(scenario: Scenario) -> float | None:
    """Return the load as a fraction of the farm's capacity, or None for closed-loop clients and recorded arrivals."""
    if scenario.clients.kind == "closed" or scenario.arrivals is not None:
        return None
    if scenario.rate is None:
        return scenario.load
    return scenario.rate * ALL_WORKLOADS[scenario.workload].mean / scenario.capacity
