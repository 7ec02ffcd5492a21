"""The demand that a real HAProxy and a real nginx measure."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from lbdns_tools.scaler.demand.demand_source import DemandError
from lbdns_tools.scaler.demand.haproxy_demand import HaproxyDemand, HaproxyDemandConfig
from lbdns_tools.scaler.demand.nginx_demand import NginxDemand
from lbdns_tools.scaler.demand.nginx_status import StubStatusPage
from lbdns_tools.scaler.front_ends.haproxy_front_end import HaproxyConfig, HaproxyFrontEnd
from tests.needs import needs
from tests.tools.scaler.front_ends.balancers import Balancer, haproxy, nginx, until, web_servers

FIRST, SECOND = "127.0.5.1", "127.0.5.2"


async def requests(balancer: Balancer, number: int) -> None:
    await asyncio.to_thread(lambda: [balancer.get() for _ in range(number)])


@needs(programs=("haproxy",))
async def test_haproxy(tmp_path: Path) -> None:
    with web_servers(FIRST, SECOND) as (port, webs), haproxy(tmp_path) as balancer:
        config = HaproxyConfig(tmp_path / "admin.sock", "web", tmp_path / "haproxy.cfg", port, "check inter 200ms")
        front = HaproxyFrontEnd(config)
        await asyncio.gather(front.add("web-1", (FIRST,)), front.add("web-2", (SECOND,)))
        demand = HaproxyDemand(HaproxyDemandConfig(config.socket, "web"))
        before = time.monotonic()
        assert set((await demand.read(before)).servers) == {"web-1", "web-2"}
        await requests(balancer, 20)
        now = time.monotonic()
        found = await demand.read(now)
        assert found.requests_per_s == pytest.approx(20 / (now - before))
        assert [load.requests_per_s for load in found.servers.values()] == pytest.approx([10 / (now - before)] * 2)
        slow = asyncio.create_task(asyncio.to_thread(balancer.get, "/slow"))

        async def is_busy() -> bool:
            reading = await demand.read(time.monotonic())
            return sum(load.busy or 0.0 for load in reading.servers.values()) == 1.0

        await until(is_busy)
        for web in webs.values():
            web.release.set()
        await slow
        balancer.restart()
        await requests(balancer, 6)
        found = await demand.read(time.monotonic() + 1000)
        assert 0.05 < found.requests_per_s <= 7.0, "counted from the restart, not from the last reading"
        with pytest.raises(DemandError, match="backend"):
            await HaproxyDemand(HaproxyDemandConfig(config.socket, "nobody")).read(now)
    with pytest.raises(DemandError, match="cannot reach HAProxy's statistics socket"):
        await demand.read(now)


@needs(programs=("haproxy",))
async def test_requests_that_no_server_answers_are_demand(tmp_path: Path) -> None:
    with haproxy(tmp_path) as balancer:
        demand = HaproxyDemand(HaproxyDemandConfig(tmp_path / "admin.sock", "web"))
        before = time.monotonic()
        await demand.read(before)
        assert {balancer.status("/") for _ in range(10)} == {503}
        now = time.monotonic()
        assert (await demand.read(now)).requests_per_s == pytest.approx(10 / (now - before))


@needs(programs=("nginx",))
async def test_nginx(tmp_path: Path) -> None:
    with web_servers(FIRST) as (port, _), nginx(tmp_path, f"server {FIRST}:{port};\n") as balancer:
        demand = NginxDemand(StubStatusPage(f"http://127.0.0.1:{balancer.port}/nginx_status"))
        now = time.monotonic()
        assert (await demand.read(now)).requests_per_s == 0.0, "measured for a second, without own requests"
        await requests(balancer, 20)
        found = await demand.read(now + 11)
        assert found.requests_per_s == pytest.approx(2.0)
        assert not found.servers
        with pytest.raises(DemandError, match="not a page of nginx's stub_status"):
            await NginxDemand(StubStatusPage(f"http://127.0.0.1:{balancer.port}/")).read(now)
