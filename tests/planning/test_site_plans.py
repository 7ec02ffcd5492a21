"""Tests of pools with sites, from a configuration to answers with their scopes, in virtual time and on both planes."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.pool_cursors import order_cursors
from lbdns.answering.responder import Responder
from lbdns.choosing.site_shares import HAS_LESS
from lbdns.counting.answer_counters import count_selections, count_site_answers
from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm
from lbdns.model.farm_reader import load_farm
from lbdns.model.overrides import NO_OVERRIDES, Override, Overrides
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.planning.farm_plans import FarmPlans
from lbdns.planning.site_plans import SHORTEST_PAUSE
from lbdns.planning.state_announcer import StateAnnouncer
from tests.planes import PLANES
from tests.planning.site_farm import site_farm


@pytest.fixture(name="farm")
def _farm(tmp_path: Path) -> Farm:
    return site_farm(tmp_path)


class Served:
    """A responder with the plans of a farm. Members serve 100 requests/s each, with one core."""

    def __init__(self, farm: Farm, plane: Any) -> None:
        self.farm, self.table = farm, AnswerTable(farm, plane)
        self.responder = Responder(self.table)
        self.plans = FarmPlans(StateAnnouncer(None, selects=True), None, detects_black_holes=True)
        self.plans.use(farm, self.table.cursors, 1000.0)
        self.now, self._totals, self._id = 1000.0, Counter[str](), 0
        self.readings: dict[str, Reading] = {}

    def second(self, **rates: float) -> None:
        for name, rate in rates.items():
            self._totals[name] += round(rate)
            metrics = {
                "requests_per_s": rate, "requests_total": float(self._totals[name]), "cpu_count": 1.0,
                "httpd_cpu_seconds": self._totals[name] / 100, "busy_workers": 1.0, "cpu_idle": 100 - rate,
            }  # fmt: skip
            self.readings[f"{name}.hobbit"] = Reading(self.now, 1.0, 50, metrics)
        for pool in self.farm.pools:
            self.plans.plan(pool, Snapshot(1, dict(self.readings)), NO_OVERRIDES, self.now)
        self.now += 1.0
        self.responder.tick(self.now, 1e9)

    def plan_again(self, now: float, overrides: Overrides = NO_OVERRIDES) -> None:
        """Plan with a new report of b1."""
        self.readings["b1.hobbit"] = replace(self.readings["b1.hobbit"], received=now)
        self.plans.plan(self.farm.pools[0], Snapshot(2, dict(self.readings)), overrides, now)

    def reload(self, farm: Farm) -> None:
        """Serve the changed ``farm``, as a reload does."""
        before, self.farm = self.table, farm
        self.table = AnswerTable(farm, before.plane)
        self.table.take_over(before)
        self.responder.use(self.table)
        self.plans.use(farm, self.table.cursors, self.now)

    def respond(self, host: str, options: Sequence[dns.edns.Option]) -> dns.message.Message:
        self._id += 1
        query = dns.message.make_query("rr.hobbit", "A", use_edns=0 if options else -1, payload=1232, id=self._id)
        query.flags &= ~dns.flags.RD
        if options:
            query.use_edns(0, 0, 1232, options=list(options))
        response = self.responder.respond(query.to_wire(), (host, 5000 + self._id))
        assert isinstance(response, bytes)
        return dns.message.from_wire(response)

    def ask(self, host: str, subnet: str = "") -> tuple[str, int | None]:
        """Return the address in the answer, and the scope, if there is a client subnet."""
        network = ipaddress.ip_network(subnet) if subnet else None
        read = self.respond(
            host, [dns.edns.ECSOption(str(network.network_address), network.prefixlen)] if network else []
        )
        scopes = [option.scopelen for option in read.options if isinstance(option, dns.edns.ECSOption)]
        return str(read.answer[0][0]), scopes[0] if scopes else None


@pytest.fixture(name="served", params=PLANES)
def _served(farm: Farm, request: pytest.FixtureRequest) -> Served:
    return Served(farm, request.param)


@pytest.mark.parametrize(
    ("host", "subnet", "site", "scope"),
    [
        ("10.1.0.1", "", "127.1", None),
        ("10.2.3.4", "", "127.2", None),
        ("10.1.0.1", "10.2.3.0/24", "127.2", 16),
        ("10.2.3.4", "10.1.0.0/24", "127.1", 15),
        ("10.2.3.4", "0.0.0.0/0", "127.2", 0),
        ("10.1.0.1", "2001:db8::/48", "127.1", 0),
    ],
)
def test_the_client_or_its_subnet_decides(served: Served, host: str, subnet: str, site: str, scope: int | None) -> None:
    for _ in range(3):
        served.second(b1=10, b2=10, p1=10, p2=10)
        for _ in range(4):  # the first by the slow path, the others by the fast path
            address, found = served.ask(host, subnet)
            assert (address.startswith(site), found) == (True, scope)


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\1\x18", b"\0\1\x18\0" + bytes(20), b"\0\3\x08\0\x0a", b"\0\2\x81\0" + bytes(17)]
)
def test_a_malformed_subnet_is_a_format_error(served: Served, data: bytes) -> None:
    for _ in range(3):
        served.ask("10.1.0.1", "10.2.3.0/24")  # precompiles the responses
    response = served.respond("10.1.0.1", [dns.edns.GenericOption("ECS", data)])
    assert response.rcode() == dns.rcode.FORMERR


def test_a_subnet_with_another_option_decides_as_well(served: Served) -> None:
    subnet = dns.edns.ECSOption("10.2.3.0", 24)
    served.ask("10.1.0.1", "10.2.3.0/24")
    for options in ([subnet, dns.edns.GenericOption("NSID", b"")], [dns.edns.GenericOption("NSID", b""), subnet]):
        response = served.respond("10.1.0.1", options)
        assert str(response.answer[0][0]).startswith("127.2")
        assert [option.scopelen for option in response.options if isinstance(option, dns.edns.ECSOption)] == [16]


def test_the_clients_of_a_site_that_fails_get_the_other(served: Served) -> None:
    for _ in range(10):
        served.second(b1=10, b2=10, p1=10, p2=10)
    for _ in range(6):
        served.second(b1=20, b2=20)
    assert {served.ask("10.2.3.4")[0] for _ in range(10)} == {"127.1.0.1", "127.1.0.2"}
    assert sum(served.plans.answers().values()) == 10


def test_a_site_with_most_members_that_dies_gets_no_answers(served: Served, tmp_path: Path) -> None:
    config = tmp_path / "lbdns.toml"
    sites = 'sites = { ber = ["b1"], par = ["b2", "p1", "p2"] }'
    config.write_text(re.sub(r"^sites = .*$", sites, config.read_text(), flags=re.MULTILINE))
    served.reload(load_farm(config))
    for _ in range(10):
        served.second(b1=10, b2=10, p1=10, p2=10)
    for _ in range(10):
        served.second(b1=30)
        assert not served.plans.choosers["web"].liveness.fail_open
    assert {served.ask(host)[0] for host in ("10.1.0.1", "10.2.0.1") for _ in range(6)} == {"127.1.0.1"}
    assert served.plans.fail_open.count == 1, "only before the first report"


def test_a_reload_keeps_the_shares_and_the_counts_of_each_order(served: Served, tmp_path: Path) -> None:
    for _ in range(10):
        served.second(b1=10, b2=10, p1=10, p2=10)
    for _ in range(6):
        served.second(b1=20, b2=20)
    counts = {served.ask(host)[0]: host for host in ("10.1.0.1", "10.2.0.1") for _ in range(4)}
    assert set(counts) == {"127.1.0.1", "127.1.0.2"}
    (tmp_path / "networks").write_text("10.2.0.0/16 par ber\n10.3.0.0/16 par\n")
    served.reload(load_farm(tmp_path / "lbdns.toml"))
    found = count_site_answers(served.table)
    assert {key: found[key] for key in found if found[key]} == {
        ("web", "ber par", "ber"): 4,
        ("web", "par ber", "ber"): 4,
    }
    assert {served.ask(host)[0] for host in ("10.2.0.1", "10.3.0.1") for _ in range(4)} == {"127.1.0.1", "127.1.0.2"}


def test_a_member_that_seems_to_have_failed_is_probed_with_the_clients_near_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.plans.choosers["web"].guard_rails, "probes", lambda _: [3])
    served.second(b1=10, b2=10, p1=10, p2=10)
    default, other = order_cursors(served.table.cursors["web", "round_robin"])
    assert (default.plan.probes, other.plan.probes, other.plan.order[0]) == (0, 1, 3)


def test_plans_are_expensive_and_so_are_only_made_at_once_if_a_member_fails(served: Served) -> None:
    served.second(b1=10, b2=10, p1=10, p2=10)
    default, _ = order_cursors(served.table.cursors["web", "round_robin"])
    plan, planned_at = default.plan, served.now - 1.0
    served.plan_again(planned_at + SHORTEST_PAUSE / 2)
    assert default.plan is plan
    assert planned_at + SHORTEST_PAUSE < served.plans.next_change < planned_at + 1.0
    served.plan_again(served.plans.next_change)
    assert default.plan is not plan
    plan = default.plan
    drained = Overrides((Override("drain", "b1.hobbit"),))
    served.plan_again(served.plans.next_change - 2.0, drained)
    assert 0 not in default.plan.order


def test_a_reload_removes_the_sites_and_adds_them_again(served: Served, tmp_path: Path) -> None:
    config = tmp_path / "lbdns.toml"
    with_sites = config.read_text()
    members = {"127.1.0.1", "127.1.0.2", "127.2.0.1", "127.2.0.2"}
    served.second(b1=10, b2=10, p1=10, p2=10)
    for _ in range(4):
        served.ask("10.2.0.1")
    config.write_text("".join(line for line in with_sites.splitlines(True) if not line.startswith("sites =")))
    served.reload(load_farm(config))
    served.second(b1=10, b2=10, p1=10, p2=10)
    assert {served.ask("10.1.0.1", "10.2.3.0/24") for _ in range(8)} == {(address, 0) for address in members}
    config.write_text(with_sites)
    served.reload(load_farm(config))
    assert {served.ask("10.1.0.1", "10.2.3.0/24") for _ in range(8)} == {("127.2.0.1", 16), ("127.2.0.2", 16)}
    served.second(b1=10, b2=10, p1=10, p2=10)
    assert {served.ask("10.1.0.1", "10.2.3.0/24") for _ in range(8)} == {("127.2.0.1", 16), ("127.2.0.2", 16)}
    assert sum(count_selections(served.table).values()) == 4 + 8 + 8 + 8
    assert sum(served.plans.answers().values()) == 4 + 8 + 8 + 8


def test_a_member_that_moves_to_another_site_gets_the_clients_of_this_site(served: Served, tmp_path: Path) -> None:
    config = tmp_path / "lbdns.toml"
    served.second(b1=10, b2=10, p1=10, p2=10)
    moved = 'sites = { ber = ["b1"], par = ["b2", "p1", "p2"] }'
    config.write_text(re.sub(r"^sites = .*$", moved, config.read_text(), flags=re.MULTILINE))
    served.reload(load_farm(config))
    served.second(b1=10, b2=10, p1=10, p2=10)
    assert {served.ask("10.1.0.1")[0] for _ in range(6)} == {"127.1.0.1"}
    assert {served.ask("10.2.0.1")[0] for _ in range(6)} == {"127.1.0.2", "127.2.0.1", "127.2.0.2"}


def test_a_process_without_answers_follows_those_of_others(farm: Farm) -> None:
    counts = Counter[tuple[str, str]]()
    events = EventLog()
    plans = FarmPlans(StateAnnouncer(events, selects=True), lambda _: Counter(), True, lambda _: counts.copy())
    plans.use(farm, {}, 1000.0)
    totals = Counter[str]()
    for second in range(60):
        readings = {}
        for name, rate in (("b1", 97.0), ("b2", 97.0), ("p1", 5.0), ("p2", 5.0)):
            totals[name] += round(rate)
            metrics = {
                "requests_per_s": rate, "requests_total": float(totals[name]), "cpu_count": 1.0,
                "httpd_cpu_seconds": totals[name] / 100, "busy_workers": 1.0, "cpu_idle": 100 - rate,
            }  # fmt: skip
            readings[f"{name}.hobbit"] = Reading(1000.0 + second, 1.0, 50, metrics)
        counts["ber par", "ber"] += 194
        counts["par ber", "par"] += 10
        plans.plan(farm.pools[0], Snapshot(second, readings), NO_OVERRIDES, 1000.0 + second)
        plans.announcer.announce(1000.0 + second)
    default, other = plans.sites["web"].orders
    assert (default.why, other.why) == (HAS_LESS, "")
    assert default.shares[0] < 0.9
    assert [event.text for event in events.newest() if event.kind == "site"] == [
        "pool web: site ber has less headroom than other sites; some answers to its clients name members of other sites"
    ]
