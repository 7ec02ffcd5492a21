"""A configuration with everything it names (zones, pools, report keys), read and checked."""

from __future__ import annotations

from dataclasses import dataclass

from lbdns.model.farm import Farm
from lbdns_shared.keys import MasterKey


@dataclass(frozen=True, slots=True)
class CheckedConfiguration:
    """What every program that receives or follows reports needs."""

    farm: Farm
    keys: tuple[MasterKey, ...]  # for reports; empty: reports count by their source address
