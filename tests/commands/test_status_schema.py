"""Checks that a server's status conforms to docs/status.schema.json."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from lbdns.bus.bus_connection import BusConnection
from lbdns.bus.bus_state import BusState
from lbdns.choosing.guard_rails.guard_rails import Guard
from lbdns.events.event_log import EventLog
from lbdns.model.overrides import KINDS, NO_OVERRIDES, Override
from lbdns.model.pool_sites import PoolSites
from lbdns.model.site_networks import build_site_networks
from lbdns.model.snapshot import FailedCheck, Reading, Snapshot
from lbdns.planning.site_plans import SitePlans
from lbdns.scores.thesis import THESIS
from lbdns.server.control.override_sharing import OverrideSharing
from lbdns_collector.reports.adaptive_weights import WeightSearchStatus
from lbdns_collector.reports.bus_status import BusStatus
from lbdns_collector.reports.rejected_reports import RejectedReports
from lbdns_collector.status.status_document import (
    ProgramStatus,
    RejectedStatus,
    ShadowStatistics,
    StatusInputs,
    build_status,
)
from lbdns_collector.status.status_source import status_inputs
from tests.collector.collector_fixtures import IDLE, KEY, WALL, FakeSource, datagram, make_farm
from tests.commands.schema import misfits
from tests.commands.terminal.documents import override, status

SCHEMA: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "docs" / "status.schema.json").read_text(encoding="utf-8")
)
NOW: Final = 5000.0


def found(document: Any) -> list[str]:
    return list(misfits(json.loads(json.dumps(document)), SCHEMA, SCHEMA))


def full(folder: Path) -> StatusInputs:
    """One of everything."""
    overrides = NO_OVERRIDES
    for kind in KINDS:
        overrides = overrides.put(
            Override(kind, f"{'frodo' if kind == 'up' else 'bilbo'}.hobbit", "", 0.5, "root", "x")
        )
    refused = (FailedCheck("web", "tcp:80: connection refused"),)
    readings = {
        "bilbo.hobbit": Reading(NOW - 0.5, 1.0, 80, IDLE, shadow_score=7, failed_checks=refused),
        "frodo.hobbit": Reading(score=0, interval=1.0, received=NOW - 9.0, metrics={}, alarm="on fire", gone=True),
    }
    history = {"on": True, "ok": False, "error": "disk full", "dropped": 7, "bytes": 4096}
    rejected = RejectedReports()
    rejected.note("bad_tag", datagram(), "192.0.2.9", WALL)
    bus = BusStatus(BusState("nats://127.0.0.1:4222", ""), Counter(accepted=3))
    kernel = {"answers": 7, "interfaces": [{"name": "eth0", "answers": True, "fault": ""}]}
    server = ProgramStatus("1.2", 60.0, 9, 1, 1.7e9, {"A": 9}, {"NOERROR": 9}, history, kernel=kernel)
    farm, sites = make_farm(folder), PoolSites({"ber": [0], "par": [1, 2]}, build_site_networks({}, ("ber", "par")))
    web, *others = farm.pools
    web = replace(web, sites=sites)
    return StatusInputs(
        replace(farm, pools=(web, *others)), Snapshot(1, readings), NOW, overrides,
        {"web": (1, 0, 3)}, server, THESIS.parts,
        {"web": ((1.0, 2.0, 3.5), True)},
        {"web": [ShadowStatistics("best", "weighted", "other", (1, 2, 3), 2)]},
        WeightSearchStatus("thesis", {"cpu_idle": 19.5}, 7, 3, 0.05),
        {"web": (Guard(ramp=0.5), Guard("it fails", NOW - 9.0, True), Guard())},
        lambda pool: {"best": {
            "members": ["bilbo", "frodo"], "why": "score", "summary": "score 60", "share": 0.4, "alternatives": [],
        }},
        RejectedStatus(1, {"accepted": 3, "bad_tag": 1}, rejected.documents(WALL + 2), bus.document()),
        shared_answers={
            "connected": True, "problem": "", "servers": [{"name": "ns2", "age_s": 0.1, "answers": 3}], "counts": {},
        },
        shared_overrides=OverrideSharing(BusConnection(EventLog()), (KEY,), EventLog()).document(),
        sites={"web": SitePlans(sites.members, sites.orders)},
    )  # fmt: skip


def test_documents_of_a_server_fit(tmp_path: Path) -> None:
    everything = full(tmp_path)
    assert found(build_status(everything)) == []
    assert found(build_status(replace(everything, snapshot=Snapshot(2, {}), capacities={}, shadows={}))) == []
    assert found(build_status(status_inputs(FakeSource(make_farm(tmp_path))))) == []


def test_every_key_of_the_schema_is_told(tmp_path: Path) -> None:
    """The schema contains only keys that a server sends."""
    document = build_status(full(tmp_path))
    pool = document["pools"][0]
    override_told = next(member["overrides"][0] for member in pool["members"] if member["overrides"])
    told = {
        "pool": pool, "member": pool["members"][0], "override": override_told, "shadow": pool["shadow"][0],
        "server": document["server"], "adaptive": document["adaptive"],
        "reports": document["reports"], "rejected": document["reports"]["rejected"][0],
        "upcoming": pool["next"]["best"], "bus": document["reports"]["bus"],
        "shared_overrides": document["shared_overrides"],
        "site": pool["sites"][0], "order": pool["orders"][0],
        "shared_answers": document["shared_answers"], "other_server": document["shared_answers"]["servers"][0],
    }  # fmt: skip
    assert told.keys() == SCHEMA["$defs"].keys()
    for name, value in told.items():
        assert value.keys() == SCHEMA["$defs"][name]["properties"].keys(), name


def test_what_the_tests_of_commands_make_up_fits() -> None:
    document = status()
    document["pools"][0]["members"][0]["overrides"] = [override()]
    assert found(document) == []


def _set(*path: Any, to: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = to

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("pools", to={}),
        _set("server", "queries", to=-1),
        _set("server", "queries", to=1.5),
        _set("server", "history", to=None),
        _set("server", "uptime", to=1),
        _set("pools", 0, "members", 0, "state", to="well"),
        _set("pools", 0, "members", 0, "score", to="66"),
        _set("pools", 0, "members", 0, "share", to=1.5),
        _set("pools", 0, "members", 0, "metrics", "cpu_idle", to=None),
        _set("pools", 0, "members", 0, "overrides", to=[{"kind": "drain"}]),
        _set("pools", 0, "members", 0, to={}),
    ],
)
def test_what_does_not_fit_is_found(change: Callable[[Any], None]) -> None:
    document = status()
    change(document)
    assert found(document)
