"""The named farms T3, H10 and U10 on which policies are compared."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lbdns_tools.sim.simulation_scenario import ServerSpec


def _farm(*machines: tuple[float, float]) -> tuple[ServerSpec, ...]:
    return tuple(ServerSpec(f"s{number}", speed, cores) for number, (speed, cores) in enumerate(machines, 1))


#: T3: three unequal servers. H10: capacities (speed times cores) from 1 to 4 on 1 to 8 cores. U10: ten equal servers.
FARMS: Final[Mapping[str, tuple[ServerSpec, ...]]] = MappingProxyType(
    {
        "T3": _farm((1.1, 1), (0.7, 1), (2.0, 2)),
        "H10": _farm(
            (1.0, 1), (0.5, 2), (1.5, 1), (1.0, 2), (2.0, 1), (0.625, 4), (1.5, 2), (0.875, 4), (1.0, 4), (0.5, 8)
        ),
        "U10": _farm(*[(1.0, 2)] * 10),
    }
)
