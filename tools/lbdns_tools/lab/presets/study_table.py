"""The table of the studies that ``lbdns-lab`` can run, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lbdns_tools.lab.presets import (
    arrival_ramp_study,
    balancer_study,
    capacity_study,
    day_trace_study,
    other_loads_study,
    webstone_study,
)
from lbdns_tools.lab.study_plan import StudyPreset

PRESETS: Final[Mapping[str, StudyPreset]] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            webstone_study.PRESET,
            balancer_study.PRESET,
            capacity_study.PRESET,
            arrival_ramp_study.PRESET,
            day_trace_study.PRESET,
            other_loads_study.PRESET,
        )
    }
)
