"""The table ``POLICIES`` of all scaling policies, and the reader of their settings, ``[policy.NAME]``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lbdns.config.toml_reader import TomlPlace, TomlTable
from lbdns.config.value_readers import read_fields
from lbdns.text.suggestions import nearest
from lbdns_tools.scaler.policies.cpu import Cpu
from lbdns_tools.scaler.policies.fixed import Fixed
from lbdns_tools.scaler.policies.forecast import Forecast
from lbdns_tools.scaler.policies.queue import Queue
from lbdns_tools.scaler.policies.reactive import Reactive
from lbdns_tools.scaler.policies.revenue import Revenue
from lbdns_tools.scaler.policies.scaling_policy import ScalingPolicy
from lbdns_tools.scaler.policies.schedule import Schedule
from lbdns_tools.scaler.policies.target import Target

#: Each policy's dataclass, whose fields are the policy's settings with their defaults
POLICIES: Final[dict[str, Callable[..., ScalingPolicy]]] = {
    "cpu": Cpu,
    "fixed": Fixed,
    "forecast": Forecast,
    "queue": Queue,
    "reactive": Reactive,
    "revenue": Revenue,
    "schedule": Schedule,
    "target": Target,
}
#: Policies that do nothing useful with their defaults
NEED_SETTINGS: Final = ("schedule",)


def read_policies(root: TomlTable) -> Mapping[str, ScalingPolicy]:
    """Return the policies that have a table ``[policy.NAME]``, by name. Add errors to the findings of ``root``."""
    tables = root.table("policy", TomlPlace("policy"))
    found: dict[str, ScalingPolicy] = {}
    for name in tables.values if tables else ():
        place = TomlPlace(f"policy.{name}")
        table = tables.table(name, place) if tables else None
        if table is None:
            continue
        if name not in POLICIES:
            root.findings.add(place, f"unknown policy {name!r}{nearest(name, POLICIES)}")
            continue
        found[name] = read_fields(POLICIES[name], table)
        table.end()
    return found
