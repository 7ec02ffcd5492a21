"""Tests of the table of faults and of the selection."""

from __future__ import annotations

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.faults import requirements
from lbdns_tools.faults.fault_table import FAULTS, select


def test_names_are_unique_and_begin_with_a_family() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(names) == len(set(names))
    assert all(name.count(".") == 1 for name in names)


def test_every_fault_says_what_is_done_and_what_must_hold() -> None:
    assert all(fault.done and fault.holds for fault in FAULTS)


def test_every_requirement_is_known() -> None:
    for fault in FAULTS:
        assert isinstance(requirements.missing(fault.needs), str)


def test_the_quick_faults_are_some_of_all() -> None:
    quick = select([], quick=True)
    assert 10 < len(quick) < len(select([], quick=False)) == len(FAULTS)
    assert all(fault.quick for fault in quick)


def test_selection_by_name_family_and_pattern() -> None:
    assert [fault.name for fault in select(["process.main-killed"], quick=True)] == ["process.main-killed"]
    assert {fault.name.split(".")[0] for fault in select(["report", "clock.*"], quick=False)} == {"report", "clock"}


def test_an_unknown_name_suggests_a_known_one() -> None:
    with pytest.raises(ConfigError, match=r"process\.main-killed"):
        select(["process.main-kiled"], quick=False)
