"""Each broken configuration is really broken: `lbdns check` refuses it, unless only a running server can notice."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from lbdns_tools.faults.families.reload_faults import BROKEN
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import THIS_VERSION, FarmPlan, FaultFarm
from lbdns_tools.faults.query_load import QueryLoad

#: These are refused only by a running server, which has other ports and processes than the new configuration
RUNNING_ONLY = {"a port that is taken", "an address of another machine", "another number of workers"}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_configuration(name: str, tmp_path: Path) -> None:
    farm = FaultFarm(tmp_path, FarmPlan(agents=()))
    farm.write_files()
    assert THIS_VERSION.error(farm.config) == ""
    bed = FaultBed(farm, QueryLoad(1, 1.0, farm.plan.queried, ()), Random(1), quick=True)
    with bed.resources:
        BROKEN[name](bed)
        assert bool(THIS_VERSION.error(farm.config)) == (name not in RUNNING_ONLY)
