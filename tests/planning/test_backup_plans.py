"""Tests of pools with a backup, from reports to answers, in virtual time and on both planes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.choosing.spillover import PATIENCE
from lbdns.events.event_log import EventLog
from lbdns.model.overrides import NO_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.planning.explanation import explain
from lbdns.planning.farm_plans import FarmPlans
from lbdns.planning.state_announcer import StateAnnouncer
from tests.answering.farms import HOBBIT, make_farm, pool
from tests.planes import PLANES

NAMES = {"rr": "round_robin", "best": "best", "even": "weighted"}
MORE = "".join(f"m{n} A 127.1.0.{n}\n" for n in range(1, 5))
FARM = make_farm(
    {"hobbit": HOBBIT + MORE},
    [
        pool(members=("m1", "m2"), names=NAMES, answer="address", backup="spare"),
        pool(name="spare", members=("m3", "m4"), names={"spare": "weighted"}),
    ],
)


class Served:
    """The plans of both pools. Members serve 100 requests/s each, with one core."""

    def __init__(self, plane: Any) -> None:
        self.table = AnswerTable(FARM, plane)
        self.events = EventLog()
        self.plans = FarmPlans(StateAnnouncer(self.events, selects=True), None, detects_black_holes=True)
        self.now, self.totals = 1000.0, Counter[str]()
        self.readings: dict[str, Reading] = {}
        self.plans.use(FARM, self.table.cursors, self.now)

    def second(self, rates: dict[str, float], answers: int = 100) -> Counter[str]:
        """Let each member in ``rates`` report once. Return the members that the second's answers name."""
        for name, rate in rates.items():
            self.totals[name] += round(rate)
            metrics = {
                "requests_per_s": rate, "requests_total": float(self.totals[name]), "cpu_count": 1.0,
                "httpd_cpu_seconds": self.totals[name] / 100, "busy_workers": 1.0, "cpu_idle": 100 - rate,
            }  # fmt: skip
            self.readings[f"{name}.hobbit"] = Reading(self.now, 1.0, 50, metrics)
        for found in FARM.pools:
            self.plans.plan(found, Snapshot(1, dict(self.readings)), NO_OVERRIDES, self.now)
        self.plans.announcer.announce(self.now)
        self.now += 1.0
        cursor = self.table.cursors["web", "round_robin"]
        names = [member.name for member in FARM.pools[0].selectable]
        return Counter(names[cursor.next()] for _ in range(answers))

    def explain(self, owner: str = "rr") -> dict[str, Any]:
        use = self.plans.backups["web"].use
        cursor = self.table.cursors["web", NAMES[owner]]
        chooser = self.plans.choosers["web"]
        return explain(FARM.pools[0], owner, chooser, cursor, NO_OVERRIDES, lambda _: {}, self.now, use)

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.events.newest() if event.kind == "backup"]


@pytest.fixture(params=PLANES)
def served(request: pytest.FixtureRequest) -> Served:
    return Served(request.param)


def test_with_spare_capacity_no_answer_names_the_backup(served: Served) -> None:
    for _ in range(20):
        found = served.second({"m1": 60, "m2": 60, "m3": 5, "m4": 5})
    assert found == Counter(m1=50, m2=50)
    assert served.explain()["backup"] == {"pool": "spare", "share": 0.0, "why": ""}
    assert served.texts == []


@pytest.mark.parametrize("owner", NAMES)
@pytest.mark.parametrize("reporting", [("m1", "m2", "m3", "m4"), ("m3", "m4")])
def test_the_names_of_a_pool_with_a_backup_are_explained(
    served: Served, owner: str, reporting: tuple[str, ...]
) -> None:
    for _ in range(10):
        served.second(dict.fromkeys(reporting, 20))
    for _ in range(3):
        served.table.cursors["web", NAMES[owner]].next()
    told = served.explain(owner)
    assert told["next"] in reporting
    assert [member["name"] for member in told["members"]] == ["m1", "m2"]
    owed = sum(member["credit"] for member in told["members"])
    assert owed == pytest.approx(0, abs=0.01), "each selection was one member's"


def test_the_excess_goes_to_the_backup_and_comes_back(served: Served) -> None:
    for _ in range(20):
        served.second({"m1": 60, "m2": 60, "m3": 5, "m4": 5})
    found = Counter[str]()
    for _ in range(40):  # 240 requests/s, where 180 are what the pool can carry
        share = found["m1"] / 100 if found else 0.5
        load = 240 * share
        rest = 240 * (1 - 2 * share) / 2
        found = served.second({"m1": min(load, 100), "m2": min(load, 100), "m3": 5 + rest, "m4": 5 + rest})
    assert 22 <= found["m3"] + found["m4"] <= 38
    assert abs(found["m3"] - found["m4"]) <= 2
    told = served.explain()
    assert told["backup"]["why"] == "is full"
    assert served.texts == ["pool web: is full; some answers name members of its backup spare"]
    assert served.plans.choosers["spare"].view("round_robin", served.now).answers_per_s > 10  # spilled ones count
    for _ in range(60):
        share = found["m1"] / 100
        found = served.second({"m1": 100 * share, "m2": 100 * share, "m3": 5, "m4": 5})
    assert found == Counter(m1=50, m2=50)
    assert served.texts[-1] == "pool web: no longer sends clients to its backup spare"
    assert len(served.texts) == 2


def test_without_a_usable_member_all_answers_name_the_backup(served: Served) -> None:
    for _ in range(10):
        served.second({"m1": 60, "m2": 60, "m3": 5, "m4": 5})
    for _ in range(5):
        found = served.second({"m3": 65, "m4": 65})
    assert found == Counter(m3=50, m4=50)
    assert not served.plans.fails_open("web")
    assert served.plans.fail_open.seconds("web", served.now) < 2
    told = served.explain()
    assert told["why"] == "pool web has no usable member: 100 % to spare"
    assert told["next"] in ("m3", "m4")
    assert (told["fail_open"], told["fail_open_reason"]) == (False, "")
    counts = [served.second({"m1": 1, "m2": 1, "m3": 60, "m4": 60}) for _ in range(40)]
    mine = [count["m1"] + count["m2"] for count in counts]
    assert 0 < mine[0] <= 10
    assert mine[-1] == 100
    assert [text.split(": ", 1)[1] for text in served.texts] == [
        "has no usable member; all answers name members of its backup spare",
        "takes its clients back from its backup spare step by step",
        "no longer sends clients to its backup spare",
    ]


def test_if_the_backup_has_no_usable_member_the_pool_fails_open(served: Served) -> None:
    for _ in range(10):
        served.second({"m1": 60, "m2": 60, "m3": 5, "m4": 5})
    for _ in range(10):
        found = served.second({})
    assert found == Counter(m1=50, m2=50)
    assert served.plans.fails_open("web")


def test_a_pool_that_has_not_reported_yet_keeps_its_clients_for_some_seconds(served: Served) -> None:
    found = [served.second({"m3": 5, "m4": 5}) for _ in range(int(PATIENCE) + 3)]
    assert found[1] == Counter(m1=50, m2=50)
    assert found[-1] == Counter(m3=50, m4=50)


def test_answers_are_counted_in_the_pool_of_the_member(served: Served) -> None:
    for _ in range(3):
        served.second({"m1": 60, "m2": 60, "m3": 5, "m4": 5}, answers=10)
    for _ in range(5):
        served.second({"m3": 65, "m4": 65}, answers=10)
    counts = served.plans.answers()
    totals = dict(zip("1234", served.table.cursors["web", "round_robin"].totals(), strict=True))
    assert counts["web", "round_robin"] == totals["1"] + totals["2"]
    assert counts["spare", "round_robin"] == totals["3"] + totals["4"] > 0
    assert sum(totals.values()) == 80
