"""A real nginx gains, drains and loses servers, and keeps its configuration if it refuses a change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lbdns_tools.scaler.demand.nginx_status import StubStatusPage
from lbdns_tools.scaler.front_ends.front_end import FrontEndError, FrontEndServer
from lbdns_tools.scaler.front_ends.nginx_front_end import NginxConfig, NginxFrontEnd
from lbdns_tools.scaler.front_ends.nginx_upstream_file import UpstreamServer, parse_upstream, upstream_text
from tests.needs import needs, program
from tests.tools.scaler.front_ends.balancers import (
    Balancer,
    WebServer,
    nginx,
    nginx_options,
    serving,
    until,
    web_servers,
)

FIRST, SECOND = "127.0.4.1", "127.0.4.2"


@dataclass
class Farm:
    """An nginx, two web servers, and the configuration of the front end."""

    balancer: Balancer
    webs: dict[str, WebServer]
    config: NginxConfig

    def front_end(self) -> NginxFrontEnd:
        page = StubStatusPage(self.config.status_url) if self.config.status_url else None
        return NginxFrontEnd(self.config, page)


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    with web_servers(FIRST, SECOND) as (port, webs), nginx(tmp_path, upstream_text({}, port, "")) as balancer:
        command = (program("nginx"), *nginx_options(tmp_path))
        config = NginxConfig(
            tmp_path / "upstream.conf", port, "max_fails=0", (*command, "-t", "-q"), (*command, "-s", "reload"),
            f"http://127.0.0.1:{balancer.port}/nginx_status",
        )  # fmt: skip
        yield Farm(balancer, webs, config)


async def two_servers(farm: Farm) -> NginxFrontEnd:
    """Return a front end with two servers, after nginx has loaded them."""
    front = farm.front_end()
    await asyncio.gather(front.add("web-1", (FIRST,)), front.add("web-2", (SECOND,)))
    await until(lambda: serves(farm, FIRST, SECOND))
    return front


async def serves(farm: Farm, *addresses: str) -> bool:
    """Return whether exactly these web servers answer; `nginx -s reload` does not wait for the new processes."""
    found = [await asyncio.to_thread(farm.balancer.get) for _ in range(8)]
    return {body for _, body in found} == set(addresses)


@needs(programs=("nginx",))
async def test_clients_are_sent_to_added_servers_until_they_are_drained_and_removed(farm: Farm) -> None:
    assert farm.balancer.get()[0] == 502, "no server yet"
    front = await two_servers(farm)
    assert await front.servers() == {"web-1": FrontEndServer(True, False), "web-2": FrontEndServer(True, False)}
    slow = asyncio.create_task(asyncio.to_thread(farm.balancer.get, "/slow"))
    await until(lambda: any_is_busy(farm))
    used, other = (FIRST, SECOND) if farm.webs[FIRST].busy.is_set() else (SECOND, FIRST)
    name = "web-1" if used == FIRST else "web-2"
    await front.drain(name, "too many servers")
    await until(lambda: serves(farm, other))
    assert (await front.servers())[name] == FrontEndServer(False, True, None), "nginx has a request in progress"
    farm.webs[used].release.set()
    assert await slow == (200, used), "the open request has continued"
    await until(lambda: unused(front, name))
    await front.undrain(name)
    await until(lambda: serves(farm, FIRST, SECOND))
    await front.drain(name, "a test")
    await front.remove(name)
    assert name not in await front.servers()
    await until(lambda: serves(farm, other))
    assert used not in farm.config.upstream_file.read_text()


async def any_is_busy(farm: Farm) -> bool:
    return any(web.busy.is_set() for web in farm.webs.values())


async def unused(front: NginxFrontEnd, name: str) -> bool:
    return (await front.servers())[name].connections == 0.0


@needs(programs=("nginx",))
async def test_a_refused_configuration_restores_the_file(farm: Farm) -> None:
    front = await two_servers(farm)
    before = farm.config.upstream_file.read_text()
    broken = NginxFrontEnd(replace(farm.config, server_options="max_fails=many"), None)
    with pytest.raises(FrontEndError, match=r"nginx refuses the configuration: .*invalid parameter \"max_fails=many\""):
        await broken.add("web-3", ("127.0.4.3",))
    assert farm.config.upstream_file.read_text() == before
    assert await serving(broken) == {"web-1", "web-2"}
    assert sorted(path.name for path in farm.config.upstream_file.parent.glob("upstream*")) == ["upstream.conf"]
    assert await serving(front) == {"web-1", "web-2"}
    assert set(farm.balancer.served_by()) == {FIRST, SECOND}


@needs(programs=("nginx",))
async def test_a_failed_reload_restores_the_file(farm: Farm, tmp_path: Path) -> None:
    for command, reason in (
        (("false",), "nginx was not reloaded: false ended with 1"),
        ((str(tmp_path / "no-program"),), "no-program: No such file or directory"),
    ):
        front = NginxFrontEnd(replace(farm.config, reload_command=command), None)
        before = farm.config.upstream_file.read_text()
        with pytest.raises(FrontEndError, match=reason):
            await front.add("web-1", (FIRST,))
        assert farm.config.upstream_file.read_text() == before
        assert await front.servers() == {}


@needs(programs=("nginx",))
async def test_the_only_server_is_not_drained(farm: Farm) -> None:
    front = farm.front_end()
    await front.add("web-1", (FIRST,))
    with pytest.raises(FrontEndError, match="web-1: the upstream would be left without a server"):
        await front.drain("web-1", "a test")
    await front.add("web-2", (SECOND,))
    found = await asyncio.gather(front.drain("web-1", ""), front.drain("web-2", ""), return_exceptions=True)
    assert [type(error) for error in found].count(FrontEndError) == 1, "not both at the same time either"
    assert len(await serving(front)) == 1
    with pytest.raises(FrontEndError, match=r"upstream\.conf has no server web-9"):
        await front.undrain("web-9")


@needs(programs=("nginx",))
async def test_a_new_scaler_and_a_new_nginx_continue_from_the_file(farm: Farm) -> None:
    front = await two_servers(farm)
    await front.drain("web-2", "a test")
    farm.balancer.restart()
    assert await serves(farm, FIRST)
    again = farm.front_end()
    servers = await again.servers()
    assert (servers["web-1"].serving, servers["web-2"].drained) == (True, True)
    await again.add("web-2", (FIRST,))
    assert parse_upstream(farm.config.upstream_file.read_text())["web-2"] == UpstreamServer(FIRST, down=True)


async def test_a_scaler_that_ended_before_the_reload_trusts_only_what_did_not_change(tmp_path: Path) -> None:
    old = {name: UpstreamServer("127.0.4.1", False) for name in ("web-1", "web-2", "web-3")}
    new = {"web-1": old["web-1"], "web-2": UpstreamServer("127.0.4.1", True), "web-4": old["web-1"]}
    file = tmp_path / "upstream.conf"
    file.write_text(upstream_text(new, 80, ""))
    file.with_name("upstream.conf.before").write_text(upstream_text(old, 80, ""))
    reloads = tmp_path / "reloads"
    config = NginxConfig(file, 80, "", ("true",), ("sh", "-c", f"echo >> {reloads}"))
    front = NginxFrontEnd(config, None)
    unknown = FrontEndServer(False, False)
    found = {"web-1": FrontEndServer(True, False), **dict.fromkeys(("web-2", "web-3", "web-4"), unknown)}
    assert await front.servers() == found
    await front.remove("web-3")
    assert len(reloads.read_text()) == 1, "removed from the file, but nginx may still have it"
    assert await serving(front) == {"web-1", "web-4"}
    assert (await front.servers())["web-2"].drained
    assert not file.with_name("upstream.conf.before").exists()
    assert await NginxFrontEnd(config, None).servers() == await front.servers()


async def test_a_failed_change_after_a_crash_loses_no_server(tmp_path: Path) -> None:
    """nginx may have loaded either file, so a server that is in only one of them must stay in the next one."""
    file, refuse = tmp_path / "upstream.conf", tmp_path / "refuse"
    file.write_text(upstream_text({name: UpstreamServer("127.0.4.1", False) for name in ("web-1", "web-2")}, 80, ""))
    file.with_name("upstream.conf.before").write_text(
        upstream_text({"web-1": UpstreamServer("127.0.4.1", False)}, 80, "")
    )
    refuse.touch()
    front = NginxFrontEnd(NginxConfig(file, 80, "", ("sh", "-c", f"! test -e {refuse}"), ("true",)), None)
    with pytest.raises(FrontEndError, match="nginx refuses the configuration"):
        await front.add("web-3", ("127.0.4.3",))
    refuse.unlink()
    await front.add("web-3", ("127.0.4.3",))
    assert set(parse_upstream(file.read_text())) == {"web-1", "web-2", "web-3"}


async def test_many_changes_need_few_reloads(tmp_path: Path) -> None:
    count = tmp_path / "count"
    reload = ("sh", "-c", f"sleep 0.2; echo >> {count}")
    front = NginxFrontEnd(NginxConfig(tmp_path / "upstream.conf", 80, "", ("true",), reload), None)
    await asyncio.gather(*(front.add(f"web-{n}", (f"127.0.4.{n}",)) for n in range(1, 11)))
    assert len(count.read_text()) <= 3
    assert await serving(front) == {f"web-{n}" for n in range(1, 11)}


async def test_one_bad_change_does_not_keep_out_the_others(tmp_path: Path) -> None:
    file = tmp_path / "upstream.conf"
    test = ("sh", "-c", f"sleep 0.05; ! grep -q 127.0.4.5 {file}")
    front = NginxFrontEnd(NginxConfig(file, 80, "", test, ("true",)), None)
    changes = (front.add(f"web-{n}", (f"127.0.4.{n}",)) for n in range(1, 11))
    found = await asyncio.gather(*changes, return_exceptions=True)
    refused = [number for number, error in enumerate(found, 1) if error]
    assert 5 in refused
    for number in refused:
        if number != 5:
            await front.add(f"web-{number}", (f"127.0.4.{number}",))  # the scaler tries again
    assert await serving(front) == {f"web-{n}" for n in range(1, 11) if n != 5}
