"""Tests of reloads in which preparing one part fails: all parts are rolled back, and the error message says so."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Final

import pytest

from lbdns.client.control_client import send_command
from lbdns.process.apply_configuration import PreparedChange
from lbdns.server.dns_server import DnsServer
from lbdns_shared.errors import LbdnsError, ListenError
from tests.answering.asking import make_query, read
from tests.answering.farms import HOBBIT
from tests.server.clients import ask_tcp, ask_udp, until
from tests.server.running import write_config
from tests.server.test_dns_server import free_endpoint, get, listen_on, server_of

QUERY: Final = make_query("round.robin.hobbit")
PARTS: Final = (
    "configuration", "status", "web", "control", "answers", "bus", "collector", "snapshots on the bus", "overrides",
    "shared answers", "history", "secondaries",
)  # fmt: skip


def write(folder: Path, listen: str, number: int, members: tuple[str, ...]) -> Path:
    """Write a configuration in which every value that a part of the server uses contains ``number``."""
    path = write_config(
        folder, web=f"127.0.0.{number}:0", pool=f"ttl = {number}", members=members,
        zone=HOBBIT + f"extra{number} A 127.0.0.1\n",
    )  # fmt: skip
    text = path.read_text().replace('"control.sock"', f'"control{number}.sock"').replace('"state"', f'"state{number}"')
    text = text.replace('["127.0.0.1:0"]', f'["{listen}"]', 1)
    text = text.replace(
        '[collector]\nlisten = ["127.0.0.1:0"]',
        f'[collector]\nlisten = ["127.0.0.{number}:0"]\nstat_file = "members{number}.txt"',
    )
    path.write_text(
        text + f'[query_log]\nfile = "queries{number}.log"\nsample = 1\n[history]\non = {number == 2}\n'.lower()
    )
    return path


async def grows(path: Path, size: int) -> bool:
    await until(lambda: path.stat().st_size > size)
    return True


async def seen(server: DnsServer, folder: Path, number: int) -> list[object]:
    """Return the externally visible state of every part."""
    web = server._web.address
    assert web is not None
    _, _, body = (await get(web, "/api/v1/status")).partition(b"\r\n\r\n")
    (pool,) = json.loads(body)["pools"]
    control = folder / f"control{number}.sock"
    found = await asyncio.to_thread(lambda: send_command(control, "explain", name="best.hobbit"))
    (where,) = server._dns.sockets.endpoints
    stat_file, query_log = folder / f"members{number}.txt", folder / f"queries{number}.log"
    await ask_udp(where, QUERY)
    await until(lambda: stat_file.exists() and query_log.exists())
    logged = query_log.stat().st_size
    return [
        where,
        read(await ask_udp(where, QUERY)).answer[0].ttl,
        await grows(query_log, logged),
        read(await ask_tcp(where, make_query(f"extra{number}.hobbit"))).rcode(),
        web,
        [member["name"] for member in pool["members"]],
        [member["name"] for member in found["explanation"]["members"]],
        stat_file.read_text().count("\n"),
        server._collector.addresses if server._collector else (),
        server._status.program.history is None,
        server._status.members.overrides,
        sorted(path.name for path in folder.glob("control*")),  # noqa: ASYNC240
        server.farm,
    ]


@pytest.mark.parametrize("part", PARTS)
async def test_every_part_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    one, two = await free_endpoint(tmp_path), await free_endpoint(tmp_path)
    config = write(tmp_path, str(one), 1, ("bilbo", "frodo", "gandalf"))
    async with server_of(config) as server:
        await asyncio.to_thread(lambda: send_command(tmp_path / "control1.sock", "drain", member="frodo"))
        before = await seen(server, tmp_path, 1)
        write(tmp_path, str(two), 2, ("bilbo", "frodo"))

        async def fail(new: object) -> PreparedChange:
            raise ListenError(f"{part}: not available")

        with monkeypatch.context() as patch:
            assert len(server._parts) == len(PARTS)
            patch.setattr(server._parts[PARTS.index(part)], "prepare", fail)
            with pytest.raises(LbdnsError, match=f"^{part}: not available$"):
                await asyncio.to_thread(lambda: send_command(tmp_path / "control1.sock", "reload"))
        assert server.events.newest()[-1].text == f"reload: the old configuration stays in force: {part}: not available"
        assert await seen(server, tmp_path, 1) == before
        with pytest.raises(ConnectionRefusedError):
            await ask_udp(two, QUERY)
        for left in ("members2.txt", "queries2.log", "state2", "control2.sock"):
            assert not (tmp_path / left).exists(), left

        answer = await asyncio.to_thread(lambda: send_command(tmp_path / "control1.sock", "reload"))
        assert answer["ok"]
        after = await seen(server, tmp_path, 2)
        same = [index for index, (was, now) in enumerate(zip(before, after, strict=True)) if was == now]
        assert same == [2, 3, 10], "queries are logged, the zone has another name, the drain stays"


async def test_a_control_socket_that_is_not_available_refuses_the_reload(tmp_path: Path) -> None:
    where = await free_endpoint(tmp_path)
    listen_on(tmp_path, where)
    config = tmp_path / "lbdns.toml"
    async with server_of(config) as server:
        (tmp_path / "file").write_text("precious")
        config.write_text(config.read_text().replace('"control.sock"', '"file"'))
        with pytest.raises(ListenError, match=r"control: .*file: "):
            await server.reload()
        answer = await asyncio.to_thread(lambda: send_command(tmp_path / "control.sock", "overrides"))
        assert answer["ok"]
        assert (tmp_path / "file").read_text() == "precious"
