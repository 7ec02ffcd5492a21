"""Guard rails as the chooser drives them: who is set aside, probed, ramped, and never too many."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lbdns.overrides import NO_STEERING
from lbdns.policies import POLICIES
from lbdns.policies.chooser import Chooser
from lbdns.policies.guard_rails.black_hole import FIRST_PROBE
from lbdns.policies.guard_rails.guards import NO_GUARD
from lbdns.policies.guard_rails.ramp import FLOOR
from lbdns.policies.plan import Handed, Plan, PoolView, rotation
from lbdns.snapshot import Reading, Snapshot
from tests.policies.views import hand_out, handed, steered

NAMES = ("a", "b", "c", "d")


class Pool:
    """A pool in virtual time: every second everybody reports, and something is handed out."""

    def __init__(self, members: int = 3, policies: tuple[str, ...] = ("best",), **options: float) -> None:
        self.names = NAMES[:members]
        self.chooser = self.new(**options)
        self.policies = policies
        self.plans: dict[str, Handed | None] = dict.fromkeys(policies)
        self.now = 0.0
        self.requests = dict.fromkeys(self.names, 100.0)
        self.busy = dict.fromkeys(self.names, 0.0)  # CPU seconds
        self.cost = dict.fromkeys(self.names, 0.01)  # CPU seconds of a request
        self.more = dict.fromkeys(self.names, 0.0)  # requests/s beside what the load brings
        self.errors = Counter[str]()
        self.gets: Counter[str] = Counter()
        self.dead: set[str] = set()
        self.mute: set[str] = set()
        self.drained: set[str] = set()
        self.alarms: dict[str, str] = {}
        self.load = 0.0  # of the pool, as the part of what all its members can do together
        self.interval = 1.0
        self.run(8)

    def new(self, min_usable: float = 0.5, **options: float) -> Chooser:
        return Chooser(self.names, 3.0, min_usable, Random(1), **options)  # type: ignore[arg-type]

    def metrics(self, name: str) -> dict[str, float]:
        """Each member serves 100 requests/s of a CPU second, if ``cost`` says nothing else."""
        known = {"cpu_count": 1.0, "run_queue": 0.0, "errors_total": float(self.errors[name])}
        if name in self.dead:
            return known
        serving = [other for other in self.names if other not in self.quarantined]
        rate = 100.0 * self.load * len(self.names) / len(serving) + self.more[name]
        self.requests[name] += 1 + rate
        self.busy[name] += self.cost[name] * rate  # the agent's own question costs next to nothing
        known |= {"listen_queue": 0.0, "httpd_cpu_seconds": self.busy[name]}
        if name in self.mute:
            return known
        return known | {
            "requests_total": self.requests[name],
            "requests_per_s": 1 + rate,
            "busy_workers": 5 * rate / 50,
        }

    def run(self, seconds: int, each: int = 10) -> None:
        """``each`` hand-outs a second for every policy."""
        for _ in range(seconds):
            self.now += 1.0
            self.tick(each)

    def tick(self, each: int = 10, reports: bool = True) -> None:
        if reports:
            self.readings = {
                name: Reading(self.now, self.interval, 90 if name in self.dead else 50, self.metrics(name),
                              alarm=self.alarms.get(name, ""))
                for name in self.names
            }  # fmt: skip
        self.chooser.observe(Snapshot(1, self.readings), steered(self.drained), self.now)
        for policy in self.policies:
            plan = self.chooser.plan(policy, self.plans[policy], self.now)
            assert plan.order, "a plan is never empty"
            assert plan.repeat_from < len(plan.order)
            self.last, order = plan, hand_out(plan, each)
            self.gets.update(self.names[i] for i in order)
            before = self.plans[policy]
            self.plans[policy] = counted(plan, each, len(self.names), before.last if before else None)

    def served(self, seconds: int, each: int = 10) -> Counter[str]:
        """Who is handed out within the next seconds."""
        self.gets.clear()
        self.run(seconds, each)
        return self.gets

    @property
    def quarantined(self) -> list[str]:
        return [name for name, g in zip(self.names, self.chooser.guards(self.now), strict=True) if g.quarantined]

    @property
    def guards(self) -> dict[str, str]:
        found = zip(self.names, self.chooser.guards(self.now), strict=True)
        return {name: guard.text(self.now) for name, guard in found if guard.text(self.now)}


def counted(plan: Plan, each: int, members: int, last: int | None) -> Handed:
    found = handed(plan, each, last)
    return Handed(plan, (*found.counts, *(0,) * (members - len(found.counts))), found.last)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("each", [1, 100])
def test_a_dead_web_server_with_a_live_agent_is_handed_out_no_more(policy: str, each: int) -> None:
    pool = Pool(policies=(policy,))
    pool.dead.add("c")
    pool.run(1, each)
    assert pool.quarantined == ["c"], "one report is enough"
    assert pool.chooser.liveness.states[2] == "usable", "the state is what reports say"
    assert pool.served(60, each)["c"] == 0
    assert pool.guards == {"c": "quarantined: nothing listens where its server-status was, since 60 s"}
    pool.dead.clear()
    pool.run(2, each)
    assert pool.guards == {"c": "ramp 10%"}
    pool.run(10, each)
    assert pool.guards == {}
    assert pool.chooser.guards(pool.now) == (NO_GUARD,) * 3


def test_policies_see_how_far_a_ramp_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def spy(view: PoolView, handed: Handed | None, chance: Random) -> Plan:
        seen.append(view.members[2].ramp)
        assert [member.ramp for member in view.members[:2]] == [1.0, 1.0]
        return rotation(view.candidates, handed)

    monkeypatch.setitem(POLICIES, "spy", spy)
    pool = Pool(policies=("spy",))
    pool.dead.add("c")
    pool.run(5)
    pool.dead.clear()
    pool.run(1)
    seen.clear()
    pool.run(12)
    assert seen == pytest.approx([min(1.0, FLOOR + (1 - FLOOR) * second / 10) for second in range(12)])


def test_ramps_go_on_without_reports() -> None:
    pool = Pool()
    pool.drained.add("c")
    pool.run(2)
    pool.drained.clear()
    pool.tick()
    assert pool.guards == {"c": "ramp 10%"}
    assert pool.chooser.next_change == pytest.approx(pool.now + 1.0)
    pool.now += 1.0
    assert pool.chooser.observe(Snapshot(1, pool.readings), NO_STEERING, pool.now), "a plan is due"
    assert pool.guards == {"c": "ramp 19%"}


@pytest.mark.parametrize("how", ["alarm", "drained"])
def test_whoever_was_out_is_ramped(how: str) -> None:
    pool = Pool()
    pool.alarms = {"c": "load1 > 9"} if how == "alarm" else {}
    pool.drained = {"c"} if how == "drained" else set()
    pool.run(2)
    assert pool.served(5)["c"] == 0
    assert pool.guards == {}, "its state says it all"
    pool.alarms, pool.drained = {}, set()
    pool.run(1)
    assert pool.guards == {"c": "ramp 10%"}


def test_a_crowd_before_its_death_keeps_nobody_in_a_rotation() -> None:
    """What it counted then says nothing of what it is sent now."""
    pool = Pool(policies=("round_robin",))
    pool.cost["c"] = 0.001  # a strong one
    pool.load, pool.more["c"] = 0.4, 900.0
    pool.run(10)
    pool.more["c"] = 0.0
    pool.run(10)
    pool.dead.add("c")
    pool.run(2)
    assert pool.quarantined == ["c"]
    assert pool.served(10)["c"] == 0


def alarmed(load: float) -> Pool:
    """c is overloaded, with as much to do as it always had; all serve so much of what they can."""
    pool = Pool()
    pool.load = load
    pool.run(20, 300)
    pool.alarms = {"c": "listen_queue 300 > 256"}
    pool.run(1, 300)
    return pool


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_an_alarm_is_heard_when_the_others_have_room(policy: str) -> None:
    pool = Pool(policies=(policy,))
    pool.load = 0.5
    pool.run(20, 150)
    pool.alarms = {"c": "mem_available 1 < 2"}
    pool.run(1, 150)
    assert pool.served(5, 150)["c"] == 0
    assert pool.guards == {}


def test_an_alarm_is_not_heard_when_the_others_can_not_carry_what_comes() -> None:
    pool = alarmed(0.9)
    assert pool.chooser.liveness.states == ("usable", "usable", "alarm"), "the state is what reports say"
    assert pool.chooser.liveness.candidates == (0, 1, 2)
    assert pool.guards == {"c": "needed, but: it gives an alarm (listen_queue 300 > 256), since 0 s"}
    assert pool.served(5, 300)["c"] == pytest.approx(500, rel=0.1)
    assert pool.guards["c"].endswith("since 5 s")
    pool.alarms = {}
    pool.run(1, 300)
    assert pool.guards == {}, "it was never away"


def test_whom_a_person_forces_down_is_not_needed_whatever_comes() -> None:
    pool = alarmed(0.9)
    pool.chooser.observe(Snapshot(1, pool.readings), steered(down={"c"}), pool.now)
    assert pool.chooser.liveness.candidates == (0, 1)


@pytest.mark.parametrize(("load", "ramp"), [(0.5, 10), (0.8, 55)])
def test_a_ramp_gives_way_when_the_others_can_not_carry_what_comes(load: float, ramp: int) -> None:
    pool = Pool()
    pool.load = load
    pool.run(40, int(300 * load))
    pool.drained = {"c"}
    pool.run(5, int(300 * load))
    pool.drained = set()
    pool.run(1, int(300 * load))
    found = pool.guards["c"]
    assert found.startswith("ramp ")
    assert float(found[5:-1]) == pytest.approx(ramp, abs=3)


def test_who_dies_during_an_alarm_is_quarantined_after_it() -> None:
    pool = Pool()
    pool.alarms = {"c": "load1 > 9"}
    pool.dead.add("c")
    pool.run(10)
    assert pool.quarantined == []
    pool.alarms = {}
    pool.run(2)
    assert pool.quarantined == ["c"]


def test_errors_quarantine_and_a_probe_releases() -> None:
    pool = Pool(policies=("round_robin", "best"))
    for _ in range(3):
        pool.errors["c"] += 1
        pool.run(1)
    assert pool.quarantined == ["c"]
    pool.gets.clear()
    began = pool.now
    while not pool.gets["c"]:
        pool.errors["c"] += 1
        assert pool.now - began <= FIRST_PROBE + 1
        pool.run(1)
    assert pool.gets["c"] == 2, "one of each policy"
    pool.errors["c"] += 1
    assert pool.served(3)["c"] == 0, "the probe found it as bad as before"
    pool.run(5)
    assert pool.quarantined == ["c"]
    pool.run(20)
    assert pool.quarantined == [], "no error after the next probe"


def test_a_probe_changes_no_rotation() -> None:
    pool = Pool(members=4, policies=("round_robin",))
    for _ in range(3):
        pool.errors["d"] += 1
        pool.run(1)
    assert pool.quarantined == ["d"]
    order: list[int] = []
    for _ in range(100):
        pool.errors["d"] += 1
        pool.now += 0.5
        pool.tick(1)
        order.append(pool.last.order[0])
    assert order.count(3) in range(2, 6)
    rest = [i for i in order if i != 3]
    assert all((after - before) % 3 == 1 for before, after in pairwise(rest))


def test_a_probe_is_due_without_reports() -> None:
    pool = Pool()
    pool.interval = 30.0
    for _ in range(3):
        pool.errors["c"] += 1
        pool.run(1)
    assert pool.quarantined == ["c"]
    due = pool.chooser.next_change
    assert pool.now < due <= pool.now + FIRST_PROBE
    pool.now = due
    assert pool.chooser.observe(Snapshot(1, pool.readings), NO_STEERING, pool.now), "a plan is due"
    assert pool.chooser.plan("best", None, pool.now).order[0] == 2


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_when_all_look_dead_nobody_is_set_aside(policy: str) -> None:
    pool = Pool(policies=(policy,))
    pool.dead.update("abc")
    pool.run(3)
    assert pool.quarantined == []
    assert not pool.chooser.liveness.fail_open
    assert set(pool.served(30)) == {"a", "b", "c"}


def test_who_dies_one_after_another_is_dead() -> None:
    pool = Pool()
    for name in "ab":
        pool.dead.add(name)
        pool.run(6)
    assert pool.quarantined == ["a", "b"]
    assert set(pool.served(10)) == {"c"}


def test_what_fails_at_once_is_most_likely_the_looking() -> None:
    pool = Pool()
    pool.dead.update("ab")
    pool.run(6)
    assert len(pool.quarantined) == 1, "half of them go on"


def test_pages_that_fail_may_be_switched_off() -> None:
    pool = Pool()
    for name in "ab":
        pool.mute.add(name)
        pool.run(6)
    assert pool.quarantined == ["a"], "half of the members go on, and b is the newer one"
    assert pool.guards["b"].startswith("needed, but: its server-status fails, since ")


def test_the_one_that_is_needed_is_still_not_the_best() -> None:
    pool = Pool(policies=("best",))
    pool.dead.update("ab")
    pool.run(20, each=1)
    assert set(pool.served(20, each=1)) == {"c"}


def test_a_rotation_misses_a_strong_member_no_more_than_others() -> None:
    pool = Pool(policies=("round_robin",))
    pool.load, pool.cost["c"] = 0.4, 0.001
    pool.run(60)
    pool.dead.add("c")  # it could do ten times as much as a and b together, but was sent a third
    pool.run(3)
    assert pool.quarantined == ["c"]


@pytest.mark.parametrize(("load", "quarantined"), [(0.3, ["d"]), (0.7, ["d"]), (0.75, []), (0.95, [])])
def test_the_rest_has_to_carry_what_comes(load: float, quarantined: list[str]) -> None:
    pool = Pool(members=4, policies=("best",))
    pool.load = load
    pool.run(60, 300)
    pool.dead.add("d")
    pool.run(3, 300)
    assert pool.quarantined == quarantined
    share = pool.served(1, 300)["d"] / 300
    assert share <= 0.3, "it looks idle, and gets no more than its part of what can't be served anyway"


def test_a_suspect_is_needed_when_the_rest_can_not_carry_all() -> None:
    for load, expected in ((0.3, False), (0.9, True)):
        pool = Pool(members=4, policies=("weighted",))
        pool.load = load
        pool.run(60, 300)
        late = {**pool.readings}
        for _ in range(5):
            pool.now += 0.5
            readings = {n: Reading(pool.now, 1.0, 50, r.metrics) for n, r in pool.readings.items()}
            pool.chooser.observe(Snapshot(1, {**readings, "d": late["d"]}), NO_STEERING, pool.now)
        plan = pool.chooser.plan("weighted", None, pool.now)
        assert pool.chooser.liveness.states[3] == "usable"
        assert (3 in plan.order) is expected


def test_it_can_be_switched_off() -> None:
    pool = Pool(policies=("round_robin",), black_hole=False, ramp_up=0.0)
    pool.dead.add("c")
    pool.run(10)
    assert pool.quarantined == []
    pool.drained.add("b")
    pool.run(2)
    pool.drained.clear()
    pool.run(1)
    assert pool.guards == {}


def test_a_reload_forgets_no_quarantine() -> None:
    pool = Pool()
    pool.dead.add("c")
    pool.run(3)
    old, pool.chooser = pool.chooser, pool.new()
    pool.chooser.take_over(old)
    assert pool.quarantined == ["c"]
    pool.tick()
    assert pool.served(5)["c"] == 0
    assert pool.quarantined == ["c"]


def test_who_says_goodbye_may_come_back_without_server_status() -> None:
    pool = Pool()
    gone = {**pool.readings, "c": Reading(pool.now + 0.5, 1.0, 50, {}, gone=True)}
    pool.chooser.observe(Snapshot(1, gone), NO_STEERING, pool.now + 0.5)
    pool.dead.add("c")
    pool.run(10)
    assert pool.quarantined == []


EVENTS = st.lists(
    st.tuples(st.sampled_from(["dead", "mute", "drained", "alarm", "errors"]), st.sampled_from("abcd")), max_size=25
)


@settings(max_examples=40, deadline=None)
@given(EVENTS, st.sampled_from(sorted(POLICIES)), st.floats(0, 1), st.sampled_from([1, 40]))
@example([("errors", "a"), ("errors", "a")], "best_score", 1.0, 1)  # needed, but never handed out nor probed
def test_whatever_happens_somebody_is_handed_out_and_all_come_back(
    events: list[tuple[str, str]], policy: str, min_usable: float, each: int
) -> None:
    pool = Pool(members=4, policies=(policy,), min_usable=min_usable)
    for what, name in events:
        if what == "alarm":
            pool.alarms = {} if pool.alarms else {name: "load1 > 9"}
        elif what == "errors":
            pool.errors[name] += 1
        else:
            there: set[str] = getattr(pool, what)
            there.symmetric_difference_update(name)
        pool.run(1, each)
        candidates = pool.chooser.liveness.candidates
        assert candidates, "never all are set aside"
        assert set(pool.quarantined) <= {pool.names[i] for i in range(4) if i not in candidates}
        if not pool.chooser.liveness.fail_open:
            usable = [i for i, state in enumerate(pool.chooser.liveness.states) if state == "usable"]
            assert set(candidates) <= set(usable)
            assert all(FLOOR <= guard.ramp <= 1 for guard in pool.chooser.guards(pool.now))
    pool.dead.clear()
    pool.mute.clear()
    pool.drained.clear()
    pool.alarms.clear()
    pool.run(120, each)
    assert pool.guards == {}, "all are back"
