"""Reads scaler.toml, and builds the parts that it describes: provider, front end, demand source and policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.config.toml_reader import TomlTable, read_toml
from lbdns.config.value_readers import read_section
from lbdns.text.suggestions import nearest
from lbdns_tools.scaler.demand.demand_table import DemandSection, read_demand
from lbdns_tools.scaler.front_ends.front_end_table import FrontEndSection, read_front_end
from lbdns_tools.scaler.life_cycle.next_step import LifeTimes
from lbdns_tools.scaler.life_cycle.web_probe import BenchmarkSettings
from lbdns_tools.scaler.policies.policy_table import POLICIES, read_policies
from lbdns_tools.scaler.policies.scaling_policy import ScalingPolicy
from lbdns_tools.scaler.providers.provider_table import ProviderSection, read_provider
from lbdns_tools.scaler.settings.scaler_sections import ProbeSection, ScalerSection

DEFAULT_FILE: Final = "/etc/lbdns/scaler.toml"


@dataclass(frozen=True, slots=True)
class ScalerSettings:
    """A complete, validated scaler.toml. ``benchmark`` is None if new servers are not benchmarked."""

    path: Path
    scaler: ScalerSection
    policy: ScalingPolicy
    front_end: FrontEndSection
    demand: DemandSection
    probe: ProbeSection
    times: LifeTimes
    benchmark: BenchmarkSettings | None
    provider: ProviderSection


def load_settings(path: Path) -> ScalerSettings:
    """Read scaler.toml. Raises a ConfigError that lists every error in the file."""
    root = read_toml(path)
    scaler = read_section(root, "scaler", ScalerSection, _check_scaler)
    front_end = read_front_end(root)
    found = ScalerSettings(
        path=path,
        scaler=scaler,
        policy=_policy(root, scaler),
        front_end=front_end,
        demand=read_demand(root, front_end),
        probe=read_section(root, "probe", ProbeSection),
        times=read_section(root, "times", LifeTimes),
        benchmark=read_section(root, "benchmark", BenchmarkSettings) if "benchmark" in root.values else None,
        provider=read_provider(root, scaler.farm),
    )
    root.end()
    root.findings.raise_if_any()
    return found


def _check_scaler(scaler: ScalerSection, table: TomlTable) -> None:
    if scaler.maximum < scaler.minimum:
        table.wrong("maximum", f"must be at least the minimum, {scaler.minimum}, not {scaler.maximum}")
    if scaler.policy not in POLICIES:
        table.wrong("policy", f"unknown policy {scaler.policy!r}{nearest(scaler.policy, POLICIES)}")


def _policy(root: TomlTable, scaler: ScalerSection) -> ScalingPolicy:
    """Return the policy in force, with the settings in its table, or with the defaults."""
    configured = read_policies(root)
    kind = POLICIES.get(scaler.policy, POLICIES["queue"])
    return configured.get(scaler.policy) or kind()
