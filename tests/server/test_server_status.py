"""Tests of the status that a running server provides to the web interface."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.plane import choose_plane
from lbdns.counting.answer_counters import AnswerCounters
from lbdns.events.event_log import EventLog
from lbdns.process.apply_configuration import commit_all
from lbdns.server.dns_service import AnsweringConfiguration
from lbdns.server.local_answerer import LocalAnswerer
from lbdns.server.server_status import ServerStatus
from lbdns.sockets.binding import bound_endpoint
from lbdns.sockets.dns_sockets import open_pair
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import make_query
from tests.answering.farms import hobbit, pool
from tests.overriding import drains
from tests.server.clients import ask_udp, until
from tests.server.readings import Readings


async def test_it_shows_the_live_objects() -> None:
    loop = asyncio.get_running_loop()
    farm = hobbit(pool(), pool("low", members=["ns"], names={"low": "best", "low2": "weighted"}))
    table = AnswerTable(farm)
    answerer = LocalAnswerer(table)
    source = ServerStatus(farm, answerer, EventLog())
    udp, tcp = open_pair(Endpoint("127.0.0.1", 0))
    here = bound_endpoint(udp)
    await commit_all([await answerer.prepare(AnsweringConfiguration(farm, table, (), [{1: udp, 2: tcp}]))])
    try:
        assert source.members.farm is farm
        assert source.program.workers == 1
        assert source.program.plane == choose_plane("auto").name
        assert (source.program.plane == "python") == bool(source.program.plane_reason)
        assert source.program.fault == "not serving: starting or stopping"
        source.program.serving = True
        assert not source.program.fault
        assert source.program.uptime_s >= 0
        assert source.counters.queries == 0
        for name in ("round.robin", "weighted", "low", "low2", "low"):
            await ask_udp(here, make_query(f"{name}.hobbit"))
        assert source.counters.queries == 5
        assert list(source.selection.answers("web")) == [2, 0, 0], "over all policies"
        assert list(source.selection.answers("low")) == [3]

        heard: list[int] = []
        leave = source.members.subscribe(lambda: heard.append(source.members.snapshot.version))
        answerer.deliver(Readings().report(loop.time()))
        await until(lambda: heard == [1])  # a pool may be planned in its next turn, if this one took long
        leave()

        answerer.override(drains("frodo.hobbit"))
        assert source.members.overrides == drains("frodo.hobbit")

        families = {family.name for family in source.counters.metric_families()}
        assert {"lbdns_dns_requests", "lbdns_dns_responses", "lbdns_answers", "lbdns_fail_opens"} <= families
        assert "lbdns_worker_restarts" in families

        await source.counters.refresh()
        before = replace(source.counters.total(), fail_open_ms={})  # time goes on
        inherited = AnswerCounters(
            durations=(7, *(0,) * (len(before.durations) - 1)),
            answers={("web", "best", "frodo.hobbit"): 3},
            named={"fail_opens": 4, "unsent": 2},
        )
        source.counters.inherit(inherited)
        assert source.counters.queries == 12
        assert list(source.selection.answers("web")) == [2, 3, 0]
        assert replace(source.counters.total(), fail_open_ms={}) == before + inherited
    finally:
        udp.close()
        tcp.close()
        await answerer.stop()
