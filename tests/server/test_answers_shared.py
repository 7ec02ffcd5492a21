"""Tests of the answers that a planner counts: those of all workers, and an estimate for other servers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.answering.answer_table import AnswerTable
from lbdns.model.farm import Farm
from tests.answering.farms import hobbit, pool
from tests.server.test_shadow import Server

BEST, TURNS = ("web", "best"), ("web", "round_robin")


def few(server: Server) -> bool:
    """Return whether policy ``best`` has a plan for light traffic."""
    return server.table.cursors[BEST].plan.light


def of_servers(count: int) -> Farm:
    farm = hobbit()
    config = replace(farm.config, server=replace(farm.config.server, dns_servers=count))
    return replace(farm, config=config)


def test_answers_of_other_workers_count() -> None:
    server = Server(hobbit())
    server.planner.count_elsewhere({})
    server.report()
    assert few(server)
    server.planner.count_elsewhere({BEST: 30})
    server.report()
    assert not few(server)
    server.clock.now += 15
    server.report()
    server.report()
    assert few(server), "ten seconds later it is forgotten"
    server.planner.count_elsewhere({TURNS: 1000})
    server.report()
    assert few(server), "each policy by itself"


def test_the_first_totals_are_the_baseline() -> None:
    """A worker that replaces a dead worker first receives the totals so far."""
    server = Server(hobbit())
    server.planner.count_elsewhere({BEST: 1_000_000})
    server.report()
    assert few(server)
    server.planner.count_elsewhere({BEST: 1_000_010})
    server.report()
    assert few(server)
    server.planner.count_elsewhere({BEST: 1_000_030})
    server.report()
    assert not few(server)


def test_totals_of_a_removed_pool_are_ignored() -> None:
    server = Server(hobbit())
    server.planner.count_elsewhere({})
    server.planner.count_elsewhere({("gone", "best"): 5, BEST: 30})
    server.report()
    assert not few(server)


def test_totals_survive_a_reload() -> None:
    server = Server(hobbit())
    server.planner.count_elsewhere({})
    server.report()
    server.planner.count_elsewhere({BEST: 30})
    server.reload(hobbit())
    server.planner.count_elsewhere({BEST: 31})
    server.report()
    assert not few(server)


def test_several_servers_multiply_and_a_reload_may_change_how_many() -> None:
    server = Server(of_servers(1))
    server.report()
    server.answer("best", 12)
    server.report()
    assert few(server), "twelve in ten seconds, when twenty are few"
    server.reload(of_servers(2))
    server.report()
    assert not few(server), "twice as many"
    server.reload(of_servers(1))
    server.report()
    assert few(server)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["answer", "report", "reload", "drop"]), st.integers(0, 30)), max_size=10))
def test_answers_of_this_process_never_fall_and_none_is_lost(history: list[tuple[str, int]]) -> None:
    server, given_out = Server(hobbit()), 0
    server.report()
    for what, count in history:
        if what == "answer" and ("web", "best") in server.table.cursors:
            server.answer("best", count)
            given_out += count
        elif what == "report":
            server.report()
        elif what == "reload":
            server.reload(hobbit())
        elif what == "drop":
            server.reload(hobbit(pool("other", names={"other": "round_robin"})))
        assert server.planner.answers()[BEST] == given_out


def test_a_planner_without_cursors_has_no_answers() -> None:
    server = Server(hobbit())
    server.planner.use(AnswerTable(hobbit()).farm, {})
    assert server.planner.answers().total() == 0
