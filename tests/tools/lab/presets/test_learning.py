"""The load with which a workload begins."""

from __future__ import annotations

import pytest

from lbdns_tools.lab import measuring
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.presets.learning import CLIENTS, learning
from lbdns_tools.lab.presets.points import UNEQUAL
from lbdns_tools.lab.presets.preset import Settings
from lbdns_tools.load.mix import one_url
from lbdns_tools.load.plan import Closed
from tests.tools.lab.presets.made_up import FakeLab, FakeMeasure


def test_everything_is_new_and_nothing_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    measure, lab = FakeMeasure(), FakeLab(Farm(UNEQUAL))
    monkeypatch.setattr(measuring, "measure", measure)
    mix = one_url("http://best.hobbit/1k.html")
    step = learning("unequal", "the sweep", mix, Settings(seed=3))
    assert step.farm == "unequal"
    assert list(step.do(lab)) == []  # type: ignore[arg-type]
    assert lab.heard == ["fresh", "measure best"]
    ((case, planned, _),) = measure.calls
    assert (case.target, case.resolve, planned.run.seed) == ("best.hobbit", "connection", 3)
    (phase,) = planned.run.phases
    assert phase.mix == mix
    assert isinstance(phase.load, Closed)
    assert (phase.load.clients, phase.load.seconds > 10.0) == (CLIENTS, True)
