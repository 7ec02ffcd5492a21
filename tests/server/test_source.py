"""What the pages are shown of a running server."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from lbdns.answering.table import Table
from lbdns.endpoint import Endpoint
from lbdns.events import Events
from lbdns.listening import bound_endpoint
from lbdns.server.alone import Alone
from lbdns.server.answerer import Work
from lbdns.server.figures import Figures
from lbdns.server.net.listen import open_pair
from lbdns.server.source import ServerSource
from tests.answering.asking import make_query
from tests.answering.farms import hobbit, pool
from tests.overriding import drains
from tests.server.clients import ask_udp, until
from tests.server.readings import Readings


async def test_it_shows_the_live_objects() -> None:
    loop = asyncio.get_running_loop()
    farm = hobbit(pool(), pool("low", members=["ns"], names={"low": "best", "low2": "weighted"}))
    table = Table(farm)
    alone = Alone(table)
    source = ServerSource(farm, alone, Events())
    udp, tcp = open_pair(Endpoint("127.0.0.1", 0))
    here = bound_endpoint(udp)
    await alone.use(Work(farm, table, (), [{1: udp, 2: tcp}]))
    try:
        assert source.farm is farm
        assert source.workers == 1
        assert not source.serving
        assert source.uptime_s >= 0
        assert source.queries == 0
        for name in ("round.robin", "weighted", "low", "low2", "low"):
            await ask_udp(here, make_query(f"{name}.hobbit"))
        assert source.queries == 5
        assert list(source.answers("web")) == [2, 0, 0], "over all policies"
        assert list(source.answers("low")) == [3]

        heard: list[int] = []
        leave = source.subscribe(lambda: heard.append(source.snapshot.version))
        alone.deliver(Readings().report(loop.time()))
        await until(lambda: heard == [1])  # a pool may be planned in its next turn, if this one took long
        leave()

        alone.override(drains("frodo.hobbit"))
        assert source.overrides == drains("frodo.hobbit")

        families = {family.name for family in source.metric_families()}
        assert {"lbdns_dns_requests", "lbdns_dns_responses", "lbdns_answers", "lbdns_fail_opens"} <= families
        assert "lbdns_worker_restarts" in families

        await source.refresh()
        before = replace(source.figures(), fail_open_ms={})  # time goes on
        inherited = Figures(
            durations=(7, *(0,) * (len(before.durations) - 1)),
            answers={("web", "best", "frodo.hobbit"): 3},
            named={"fail_opens": 4, "unsent": 2},
        )
        source.inherit(inherited)
        assert source.queries == 12
        assert list(source.answers("web")) == [2, 3, 0]
        assert replace(source.figures(), fail_open_ms={}) == before + inherited
    finally:
        udp.close()
        tcp.close()
        await alone.stop()
