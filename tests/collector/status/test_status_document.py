"""Tests of status documents: members, states, scores, overrides, guards, and changes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from lbdns.choosing.guard_rails.guard_rails import NO_GUARD, Guard
from lbdns.model.farm import Farm
from lbdns.model.overrides import Override, Overrides
from lbdns.model.snapshot import NO_METRICS, FailedCheck, Reading, Snapshot, changed_members
from lbdns.scores.thesis import THESIS
from lbdns_collector.status.status_document import (
    ProgramStatus,
    RejectedStatus,
    ReportChanges,
    build_status,
    change_signature,
    status_json,
    to_json,
)
from lbdns_collector.status.status_document_reading import read_status
from tests.answering.farms import MEMBERS
from tests.collector.collector_fixtures import IDLE, make_farm
from tests.collector.status.made_up_status import NOW, members, reading, status_inputs
from tests.config.config_files import pool_table


def test_shape(farm: Farm) -> None:
    document = build_status(status_inputs(farm, {"gandalf": reading()}, answers=(1, 0, 3)))
    assert document["server"] == {
        "version": "1.2",
        "uptime_s": 60.0,
        "queries": 9,
        "workers": 1,
        "plane": "",
        "plane_reason": "",
        "fault": "",
        "steer": False,
        "scaler": False,
        "started": 0.0,
        "types": {},
        "rcodes": {},
        "history": {"on": False, "ok": True, "error": "", "dropped": 0, "bytes": 0},
    }
    assert document["pools"][0]["measured"] is False
    (pool,) = document["pools"]
    assert (pool["name"], pool["zone"], pool["fail_open"]) == ("web", "hobbit", False)
    assert pool["policies"] == {"best": "best", "round.robin": "round_robin", "weighted": "weighted"}
    assert members(document)["gandalf"] == {
        "name": "gandalf",
        "addresses": ("127.0.0.18",),
        "joined": False,
        "state": "usable",
        "reason": "",
        "guard": "",
        "overrides": [],
        "capacity": None,
        "capacity_share": None,
        "score_parts": {},
        "score": 80,
        "age_s": 0.5,
        "answers": 3,
        "share": 0.75,
        "metrics": IDLE,
        "interval_s": 1.0,
        "alarm": "",
        "gone": False,
    }
    json.dumps(document, allow_nan=False)


def test_read_only_mappings_become_objects(farm: Farm) -> None:
    """Read-only mappings are the defaults of several arguments and attributes, and json knows only dict."""
    types, history = MappingProxyType({"A": 9}), MappingProxyType({"on": True})
    none: Mapping[str, int] = MappingProxyType({})
    program = ProgramStatus("1.2", 60.0, 9, 1, types=types, rcodes=none, history=history)
    inputs = replace(
        status_inputs(farm, {"gandalf": reading(metrics=NO_METRICS), "frodo": Reading(NOW, 1.0, 80)}),
        server=program,
        rejected=RejectedStatus(1, none, [none]),
        parts=lambda _: NO_METRICS,
    )
    document = json.loads(status_json(inputs))
    assert document["server"]["types"] == {"A": 9}
    assert document["server"]["history"] == {"on": True}
    assert document["reports"] == {"counts": {}, "rejected": [{}], "bus": None}
    assert {name: member["metrics"] for name, member in members(document).items()} == {name: {} for name in MEMBERS}
    (changed,) = ReportChanges(farm).build(["gandalf.hobbit"], inputs.snapshot.readings, NOW)["pools"]
    assert json.loads(to_json(changed))["members"][0]["metrics"] == {}


def test_what_json_cannot_represent_is_an_error() -> None:
    with pytest.raises(TypeError, match="set"):
        to_json({"a": {1}})


def test_score_parts_and_capacities(farm: Farm) -> None:
    plain = status_inputs(farm, {"gandalf": reading(), "frodo": reading(score=79)})
    now = replace(plain, parts=THESIS.parts, capacities={"web": ((10.0, 10.0, 20.0), True)})
    document = build_status(now)
    told = members(document)
    assert document["pools"][0]["measured"] is True
    assert {name: (m["capacity"], m["capacity_share"]) for name, m in told.items()} == {
        "bilbo": (10.0, 0.25), "frodo": (10.0, 0.25), "gandalf": (20.0, 0.5),
    }  # fmt: skip
    assert int(sum(told["gandalf"]["score_parts"].values()) + 0.01) == 80
    assert told["gandalf"]["score_parts"]["cpu_idle"] == 19.58
    assert told["frodo"]["score_parts"] == {}, "not what this score came from"
    assert told["bilbo"]["score_parts"] == {}
    stale = replace(now, capacities={"web": ((10.0,), True)})  # the planner still uses another configuration
    assert members(build_status(stale))["gandalf"]["capacity"] is None


def test_overrides_are_shown_with_who_when_and_why(farm: Farm) -> None:
    plain = status_inputs(farm, {"gandalf": reading(), "frodo": reading(99.0)})
    orders = Overrides(
        (
            Override("drain", "gandalf.hobbit", by="ann", reason="new kernel", since=5.0, until=9.0),
            Override("up", "frodo.hobbit", "web", by="bob", since=6.0),
            Override("weight", "bilbo.hobbit", factor=0.5),
            Override("down", "bilbo.hobbit", "other"),
        )
    )
    told = members(build_status(replace(plain, overrides=orders)))
    assert {name: (m["state"], m["reason"]) for name, m in told.items()} == {
        "bilbo": ("unknown", "has never reported"),
        "frodo": ("usable", "forced up by bob"),
        "gandalf": ("drained", "drained by ann: new kernel"),
    }
    (drain,) = told["gandalf"]["overrides"]
    assert (drain["kind"], drain["by"], drain["since"], drain["until"]) == ("drain", "ann", 5.0, 9.0)
    assert [order["kind"] for order in told["bilbo"]["overrides"]] == ["weight"]
    assert change_signature(replace(plain, overrides=orders))[0] != change_signature(plain)[0]


def test_guards_are_shown_in_words_and_their_change_is_noticed(farm: Farm) -> None:
    readings = {"gandalf": reading(), "frodo": reading()}
    guards = (NO_GUARD, Guard(ramp=0.4), Guard("its server-status page cannot be read", NOW - 12.0, quarantined=True))
    plain = status_inputs(farm, readings)
    now = replace(plain, guards={"web": guards})
    told = members(build_status(now))
    assert {name: member["guard"] for name, member in told.items()} == {
        "bilbo": "", "frodo": "ramp 40%", "gandalf": "quarantined: its server-status page cannot be read, for 12 s",
    }  # fmt: skip
    assert told["gandalf"]["state"] == "usable"
    assert change_signature(now)[0] != change_signature(plain)[0]
    assert change_signature(now)[0] == change_signature(replace(now, now=NOW + 0.1))[0]
    assert {m["guard"] for m in members(build_status(replace(now, guards={"web": guards[:2]}))).values()} == {""}


def test_never_reported(farm: Farm) -> None:
    member = members(build_status(status_inputs(farm, {})))["bilbo"]
    assert (member["state"], member["score"], member["age_s"], member["metrics"]) == ("unknown", None, None, {})
    assert (member["answers"], member["share"]) == (0, 0.0)


@pytest.mark.parametrize(
    ("found", "drained", "state"),
    [
        (reading(2.99), (), "usable"),
        (reading(3.0), (), "silent"),
        (reading(5.0, interval=2.0), (), "usable"),
        (reading(0.1, gone=True), (), "silent"),
        (reading(0.1, alarm="swapping"), (), "alarm"),
        (reading(9.9, alarm="swapping"), (), "silent"),
        (reading(0.1), ("gandalf",), "drained"),
    ],
)
def test_states(farm: Farm, found: Reading, drained: tuple[str, ...], state: str) -> None:
    document = build_status(status_inputs(farm, {"gandalf": found}, drained))
    assert members(document)["gandalf"]["state"] == state


@pytest.mark.parametrize(
    ("readings", "fails_open"),
    [
        ({"gandalf": 0.1, "frodo": 0.1, "bilbo": 0.1}, False),
        ({"gandalf": 0.1, "frodo": 0.1, "bilbo": 9.0}, False),
        ({"gandalf": 0.1, "frodo": 9.0, "bilbo": 9.1}, True),
        ({"gandalf": 0.1, "frodo": 9.0, "bilbo": 90.0}, False),
        ({"gandalf": 9.0, "frodo": 90.0, "bilbo": 900.0}, True),
    ],
)
def test_fail_open(farm: Farm, readings: dict[str, float], fails_open: bool) -> None:
    (pool,) = build_status(status_inputs(farm, {name: reading(age) for name, age in readings.items()}))["pools"]
    assert pool["fail_open"] is fails_open
    assert bool(pool["fail_open_reason"]) is fails_open


def test_changes_contain_changed_members(farm: Farm) -> None:
    kept, old, new = reading(), reading(score=1), reading(score=2, gone=True)
    before = {"gandalf.hobbit": kept, "frodo.hobbit": old}
    after = {"gandalf.hobbit": kept, "frodo.hobbit": new, "bilbo.hobbit": reading(3.0), "sauron.mordor": reading()}
    changed = changed_members(Snapshot(1, before), Snapshot(2, after))
    assert changed == ["frodo.hobbit", "bilbo.hobbit", "sauron.mordor"]
    document = ReportChanges(farm).build(changed, after, NOW)
    whole = members(build_status(status_inputs(farm, {"frodo": new, "bilbo": after["bilbo.hobbit"]})))
    assert set(members(document)) == {"frodo", "bilbo"}
    for name, member in members(document).items():
        assert member.items() <= whole[name].items()
    assert read_status(document, NOW) == {name: after[name] for name in ("frodo.hobbit", "bilbo.hobbit")}
    assert ReportChanges(farm).build(["sauron.mordor"], after, NOW) == {"pools": []}


def test_change_signature_covers_states_and_answers(farm: Farm) -> None:
    readings = {"gandalf": reading(0.5), "frodo": reading(1.0), "bilbo": reading(9.0)}
    first, when = change_signature(status_inputs(farm, readings))
    assert when == NOW + 2.0
    assert change_signature(status_inputs(farm, readings, now=NOW + 1.9))[0] == first
    assert change_signature(status_inputs(farm, readings, now=NOW + 2.0))[0] != first
    assert change_signature(status_inputs(farm, readings, answers=(0, 0, 1)))[0] != first
    assert change_signature(status_inputs(farm, {}))[1] == math.inf


def test_farm_of_two_pools_shares_members(tmp_path: Path) -> None:
    other = pool_table("frodo", name="static", more='names = { s = "best" }')
    told = ReportChanges(make_farm(tmp_path, more=other)).build(["frodo.hobbit"], {"frodo.hobbit": reading()}, NOW)
    assert [(pool["name"], [m["name"] for m in pool["members"]]) for pool in told["pools"]] == [
        ("web", ["frodo"]),
        ("static", ["frodo"]),
    ]


def two_pools(folder: Path) -> Farm:
    """Pools web and mail with the same members."""
    more = pool_table(name="mail", more='names = { mail = "best" }')
    return make_farm(folder, members=("gandalf",), more=more)


@pytest.mark.parametrize("pools", [("web",), ("mail",), ("web", "mail")])
def test_a_follower_reads_the_failed_checks_of_each_pool(tmp_path: Path, pools: tuple[str, ...]) -> None:
    farm = two_pools(tmp_path)
    failed = replace(reading(), failed_checks=tuple(FailedCheck(pool, f"{pool}: refused") for pool in pools))
    document = build_status(status_inputs(farm, {"gandalf": failed}))
    for pool in document["pools"]:
        (member,) = pool["members"]
        assert member["state"] == ("silent" if pool["name"] in pools else "usable")
        assert member.get("check_failed", "") == failed.failure(pool["name"])
        assert member["reason"] == (f"{pool['name']}: refused; no report for 0.5 s" if pool["name"] in pools else "")
    read = read_status(json.loads(json.dumps(document)), NOW)["gandalf.hobbit"]
    assert read is not None
    assert read.failed_checks == failed.failed_checks
    changes = ReportChanges(farm).build(["gandalf.hobbit"], {"gandalf.hobbit": failed}, NOW)
    read = read_status(json.loads(json.dumps(changes)), NOW)["gandalf.hobbit"]
    assert read is not None
    assert read.failed_checks == failed.failed_checks


def test_a_member_without_an_agent(farm: Farm) -> None:
    passed = Reading(NOW - 0.5, 1.0, None)
    failed = Reading(NOW - 35.0, 1.0, None, failed_checks=(FailedCheck("web", "tcp:80: connection refused"),))
    unchecked = replace(failed, failed_checks=())
    document = build_status(status_inputs(farm, {"gandalf": passed, "frodo": failed, "bilbo": unchecked}))
    found = members(document)
    assert {name: (m["state"], m["score"], m["age_s"]) for name, m in found.items()} == {
        "gandalf": ("usable", None, 0.5), "frodo": ("silent", None, 35.0), "bilbo": ("silent", None, 35.0),
    }  # fmt: skip
    assert found["gandalf"]["reason"] == ""
    assert found["frodo"]["reason"] == "tcp:80: connection refused; no check passed for 35 s"
    assert found["bilbo"]["reason"] == "checks have stopped; no check passed for 35 s"
    read = read_status(json.loads(json.dumps(document)), NOW)
    assert (read["gandalf.hobbit"], read["frodo.hobbit"]) == (passed, failed)


def test_a_failed_server_s_reason(farm: Farm) -> None:
    alarm = reading(alarm="web server failed", failed_checks=(FailedCheck("web", "tcp:80: connection refused"),))
    (text,) = [
        m["reason"] for m in members(build_status(status_inputs(farm, {"gandalf": alarm}))).values() if m["age_s"]
    ]
    assert text == "tcp:80: connection refused; alarm: web server failed"
