"""A real HAProxy gains, drains, loses and keeps servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lbdns_agent.agent_check.agent_check import AgentCheck
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.free_ports import free_ports
from lbdns_tools.scaler.front_ends.front_end import FrontEndError, FrontEndServer
from lbdns_tools.scaler.front_ends.haproxy_config_file import HaproxyConfigFile
from lbdns_tools.scaler.front_ends.haproxy_front_end import HaproxyConfig, HaproxyFrontEnd
from lbdns_tools.scaler.front_ends.haproxy_socket import HaproxySocket
from tests.needs import needs
from tests.tools.scaler.front_ends.balancers import Balancer, WebServer, haproxy, serving, until, web_servers

FIRST, SECOND, ABSENT = "127.0.3.1", "127.0.3.2", "127.0.3.3"


@dataclass
class Farm:
    """An HAProxy, two web servers, and the configuration of the front end."""

    balancer: Balancer
    webs: dict[str, WebServer]
    config: HaproxyConfig

    @property
    def file(self) -> Path:
        return self.balancer.folder / "haproxy.cfg"

    def lines(self) -> list[str]:
        """Return the server lines of the configuration file."""
        return [line.strip() for line in self.file.read_text().splitlines() if line.strip().startswith("server ")]

    async def order(self, command: str) -> None:
        """Do what an operator does."""
        await HaproxySocket(self.config.socket).order(command)


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    with web_servers(FIRST, SECOND) as (port, webs), haproxy(tmp_path) as balancer:
        file = tmp_path / "haproxy.cfg"
        options = "check inter 200ms fall 2 rise 1"
        yield Farm(balancer, webs, HaproxyConfig(tmp_path / "admin.sock", "web", file, port, options))


async def two_servers(config: HaproxyConfig) -> HaproxyFrontEnd:
    front = HaproxyFrontEnd(config)
    await asyncio.gather(front.add("web-1", (FIRST,)), front.add("web-2", (SECOND,)))
    return front


@needs(programs=("haproxy",))
async def test_clients_are_sent_to_added_servers_until_they_are_drained_and_removed(farm: Farm) -> None:
    front = await two_servers(farm.config)
    await until(lambda: all_serving(front))
    assert set(farm.balancer.served_by()) == {FIRST, SECOND}
    assert farm.balancer.get()[0] == 200
    slow = asyncio.create_task(asyncio.to_thread(farm.balancer.get, "/slow"))
    await until(lambda: busy(front))
    (used,) = [name for name, server in (await front.servers()).items() if server.connections]
    web = farm.webs[FIRST if used == "web-1" else SECOND]
    await front.drain(used, "too many servers")
    found = (await front.servers())[used]
    assert (found.serving, found.drained, found.held, found.connections) == (False, True, False, 1.0)
    assert set(farm.balancer.served_by()) == {FIRST, SECOND} - {web.server_address[0]}, "no new request"
    with pytest.raises(FrontEndError, match="refused 'del server"):  # a connection is left
        await front.remove(used)
    assert not slow.done(), "the open request continues"
    web.release.set()
    assert await slow == (200, web.server_address[0])
    await until(lambda: quiet(front, used))
    await until(lambda: is_removed(front, used))
    assert set(await front.servers()) == {"web-1", "web-2"} - {used}
    assert [line.split()[1] for line in farm.lines()] == sorted({"web-1", "web-2"} - {used})
    await front.remove(used)  # once more: nothing is left to do


async def busy(front: HaproxyFrontEnd) -> bool:
    return any(server.connections for server in (await front.servers()).values())


async def quiet(front: HaproxyFrontEnd, name: str) -> bool:
    return (await front.servers())[name].connections == 0.0


@needs(programs=("haproxy",))
async def test_a_restart_keeps_servers_and_drains(farm: Farm) -> None:
    front = await two_servers(farm.config)
    await front.drain("web-2", "a test")
    (line,) = (line for line in farm.lines() if "server web-2 " in line)
    assert line.endswith(" disabled")
    farm.balancer.restart()
    assert set(farm.balancer.served_by()) == {FIRST}
    for found in (front, HaproxyFrontEnd(farm.config)):  # also a scaler that has been restarted, too
        servers = await found.servers()
        assert servers["web-1"].serving
        assert (servers["web-2"].drained, servers["web-2"].held) == (True, False)
    await front.undrain("web-2")
    await until(lambda: all_serving(front))
    assert set(farm.balancer.served_by()) == {FIRST, SECOND}
    assert "disabled" not in "".join(farm.lines())
    farm.balancer.restart()
    assert set(farm.balancer.served_by()) == {FIRST, SECOND}
    await front.drain("web-1", "a test")
    await until(lambda: is_removed(front, "web-1"))  # a server that was read from the file
    assert set(await front.servers()) == {"web-2"}


async def is_removed(front: HaproxyFrontEnd, name: str) -> bool:
    """Remove a server, unless it has connections."""
    try:
        await front.remove(name)
    except FrontEndError as error:
        if "refused 'del server" in str(error):
            return False
        raise
    return True


async def all_serving(front: HaproxyFrontEnd) -> bool:
    return await serving(front) == {"web-1", "web-2"}


@needs(programs=("haproxy",))
async def test_drains_of_operators_are_told_from_the_scalers(farm: Farm) -> None:
    front = await two_servers(farm.config)
    for state in ("drain", "maint"):
        await farm.order(f"set server web/web-1 state {state}")
        found = (await front.servers())["web-1"]
        assert (found.serving, found.drained, found.held) == (False, False, True)
        await front.add("web-1", (FIRST,))  # changes nothing
        assert (await front.servers())["web-1"].held
        await farm.order("set server web/web-1 state ready")
        await until(lambda: all_serving(front))
    without = HaproxyFrontEnd(replace(farm.config, config_file=None))
    await farm.order("set server web/web-1 state drain")
    assert (await without.servers())["web-1"].drained, "without the file, there is no telling"
    await farm.order("set server web/web-1 state maint")
    assert (await without.servers())["web-1"].held


@needs(programs=("haproxy",))
async def test_a_server_that_fails_its_health_check_gets_no_client(farm: Farm) -> None:
    front = await two_servers(farm.config)
    with pytest.raises(FrontEndError, match=r"web/web-3: HAProxy's health check has not passed: L4CON"):
        await front.add("web-3", (ABSENT,))
    found = (await front.servers())["web-3"]
    assert (found.serving, found.drained) == (False, True)
    assert set(farm.balancer.served_by()) == {FIRST, SECOND}
    farm.webs[SECOND].shutdown()
    farm.webs[SECOND].server_close()
    await until(lambda: only(front, "web-1"))
    assert not (await front.servers())["web-2"].drained


async def only(front: HaproxyFrontEnd, name: str) -> bool:
    return await serving(front) == {name}


@needs(programs=("haproxy",))
async def test_a_spare_may_return_with_another_address(farm: Farm) -> None:
    front = HaproxyFrontEnd(farm.config)
    await front.add("web-1", (FIRST,))
    with pytest.raises(FrontEndError, match="web-1: the backend web would be left without a server"):
        await front.drain("web-1", "the only one")
    await front.add("web-2", (SECOND,))
    await front.drain("web-1", "a spare")
    await front.drain("web-1", "once more")
    await front.add("web-1", (SECOND,))
    assert (await front.servers())["web-1"].drained, "the address changes, not the state"
    await front.undrain("web-1")
    assert farm.lines()[0].split()[2].startswith(SECOND)
    assert set(farm.balancer.served_by()) == {SECOND}


@needs(programs=("haproxy",))
async def test_the_agent_of_an_added_server_sets_its_weight(farm: Farm) -> None:
    (port,) = free_ports(1)
    options = f"{farm.config.server_options} weight 100 agent-check agent-port {port} agent-inter 100ms"
    front = HaproxyFrontEnd(replace(farm.config, server_options=options))
    alarms = ["run_queue 130 > 100"]
    check = AgentCheck(Endpoint(FIRST, port), None, lambda: alarms[-1])
    tasks = SensorTasks()
    tasks.services.append(check.server)
    check.observe({"cpu_idle": 40.0})

    async def has(expected: FrontEndServer) -> bool:
        tasks.wait(time.monotonic() + 0.02)
        return replace((await front.servers())["web-1"], connections=None) == expected

    await asyncio.gather(front.add("web-1", (FIRST,)), front.add("web-2", (SECOND,)))
    try:
        await until(lambda: has(FrontEndServer(serving=False, drained=False)))
        assert set(farm.balancer.served_by()) == {SECOND}, "an alarm is neither the scaler's drain nor an operator's"
        alarms.append("")
        await until(lambda: has(FrontEndServer(serving=True, drained=False)))
        assert 0 < farm.balancer.served_by(28)[FIRST] < 14, "40% of the other server's weight"
    finally:
        check.close()


@needs(programs=("haproxy",))
async def test_without_a_file_a_restart_forgets(farm: Farm) -> None:
    front = await two_servers(replace(farm.config, config_file=None))
    assert farm.lines() == []
    farm.balancer.restart()
    assert await front.servers() == {}
    await front.add("web-1", (FIRST,))  # as the scaler does, because the front end does not know the server
    assert set(farm.balancer.served_by()) == {FIRST}


@needs(programs=("haproxy",))
async def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    extra = "backend hashed\n    balance source\n"
    with web_servers(FIRST) as (port, _), haproxy(tmp_path, extra=extra):
        config = HaproxyConfig(tmp_path / "admin.sock", "hashed", None, port)
        with pytest.raises(FrontEndError, match="only with 'balance roundrobin', 'leastconn'"):
            await HaproxyFrontEnd(config).add("web-1", (FIRST,))
        with pytest.raises(FrontEndError, match=r"Can't find backend\.; check the setting 'backend'"):
            await HaproxyFrontEnd(replace(config, backend="nobody")).servers()
        wrong = replace(config, backend="web", server_options="check sni")
        with pytest.raises(FrontEndError, match="refused 'add server web/web-1"):
            await HaproxyFrontEnd(wrong).add("web-1", (FIRST,))
        file = replace(config, config_file=tmp_path / "haproxy.cfg")
        with pytest.raises(FrontEndError, match=r"must be in the section 'backend hashed', but is in .* 'backend web'"):
            await HaproxyFrontEnd(file).servers()
    with pytest.raises(FrontEndError, match="cannot reach HAProxy's statistics socket: No such file"):
        await HaproxyFrontEnd(replace(config, socket=tmp_path / "nothing")).servers()
    with pytest.raises(FrontEndError, match="web-1: the server has no address yet"):
        await HaproxyFrontEnd(config).add("web-1", ())


@needs(programs=("haproxy",))
async def test_the_file_keeps_its_mode_and_its_link(farm: Farm) -> None:
    farm.file.chmod(0o640)
    link = farm.file.with_name("link.cfg")
    link.symlink_to(farm.file)
    before = farm.file.read_text()
    front = HaproxyFrontEnd(replace(farm.config, config_file=link))
    await front.add("web-1", (FIRST,))
    assert link.is_symlink()
    assert farm.file.stat().st_mode & 0o777 == 0o640
    await HaproxySocket(farm.config.socket).order("set server web/web-1 state maint")
    await until(lambda: is_removed(front, "web-1"))
    assert farm.file.read_text() == before
    assert HaproxyConfigFile(link, "web").servers() == {}
