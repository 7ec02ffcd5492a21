"""The studies that can be done with one command, by name: an explicit table, a line each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lbdns_tools.lab.presets import balancers, capacity, other_loads, ramp, trace, webstone
from lbdns_tools.lab.presets.preset import Preset

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            webstone.PRESET,
            balancers.PRESET,
            capacity.PRESET,
            ramp.PRESET,
            trace.PRESET,
            other_loads.PRESET,
        )
    }
)
