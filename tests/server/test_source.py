"""What the pages are shown of a running server."""

from __future__ import annotations

import asyncio

from lbdns.answering.table import Table
from lbdns.endpoint import Endpoint
from lbdns.server.durations import Durations
from lbdns.server.listeners import Listeners
from lbdns.server.plans import Planner
from lbdns.server.source import ServerSource
from tests.answering.asking import ask, make_query, make_responder
from tests.answering.farms import hobbit, pool
from tests.server.clients import ask_udp
from tests.server.readings import Readings


async def test_it_shows_the_live_objects() -> None:
    loop = asyncio.get_running_loop()
    responder = make_responder(hobbit(pool(), pool("low", members=["ns"], names={"low": "best", "low2": "weighted"})))
    durations = Durations()
    listeners = Listeners(responder, durations)
    planner = Planner(responder.table, loop)
    source = ServerSource(responder, durations, listeners, planner)
    await listeners.listen([Endpoint("127.0.0.1", 0)])
    try:
        assert source.farm is responder.table.farm
        assert not source.serving
        assert source.uptime_s >= 0
        assert source.queries == 0
        await ask_udp(listeners.endpoints[0], make_query("round.robin.hobbit"))
        await ask_udp(listeners.endpoints[0], make_query("weighted.hobbit"))
        for name in ("low.hobbit", "low2.hobbit", "low.hobbit"):
            ask(responder, name)
        assert source.queries == 2
        assert list(source.answers("web")) == [2, 0, 0], "over all policies"
        assert list(source.answers("low")) == [3]

        heard: list[int] = []
        leave = source.subscribe(lambda: heard.append(source.snapshot.version))
        planner.deliver(Readings().report(loop.time()))
        assert heard == [1]
        leave()

        planner.drained = frozenset({"frodo.hobbit"})
        assert list(source.drained("web")) == ["frodo"]
        assert list(source.drained("low")) == []

        families = {family.name for family in source.metric_families()}
        assert {"lbdns_dns_requests", "lbdns_dns_responses", "lbdns_answers", "lbdns_fail_opens"} <= families

        responder.table = Table(hobbit())
        assert source.farm is responder.table.farm, "the one in force, after a reload too"
    finally:
        await listeners.close()
        planner.stop()
