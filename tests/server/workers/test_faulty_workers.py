"""Tests of reloads while a worker hangs or dies: all workers use the new configuration, or all keep the old one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lbdns.client.control_client import send_command
from lbdns_shared.errors import LbdnsError
from tests.answering.asking import read
from tests.server.clients import PATIENCE, until
from tests.server.faulty_workers import DIES, DIES_BEFORE_COMMIT, HANGS, HANGS_BEFORE_COMMIT, HANGS_ONCE
from tests.server.running import Serving, serving, write_config
from tests.server.test_dns_server import get
from tests.server.workers.test_worker_pool import clients, metric, workers_of

OLD = ("bilbo", "frodo", "gandalf")
NEW = ("bilbo", "frodo")


@asynccontextmanager
async def faulty(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Serving]:
    monkeypatch.setenv("HANG_FLAG", str(folder / "hung"))
    path = write_config(folder, web="127.0.0.1:0", pool="ttl = 1")
    async with serving(path, "--workers", "2", module="tests.server.faulty_workers") as server:
        yield server
        assert not server.logged("Traceback")


def change(folder: Path, ttl: int) -> None:
    """Write a configuration with a different TTL, different members, a stat file, and a different web address."""
    path = write_config(folder, web="127.0.0.2:0", pool=f"ttl = {ttl}", members=NEW)
    path.write_text(path.read_text().replace("[collector]\n", '[collector]\nstat_file = "members.txt"\n'))


async def reload(folder: Path) -> dict[str, Any]:
    return await asyncio.to_thread(lambda: dict(send_command(folder / "control.sock", "reload")))


async def ttls(server: Serving) -> set[int]:
    """Return the TTLs in the answers to many clients. Each worker gives some of these answers."""
    with clients(server) as asking:
        asking.send()
        loop = asyncio.get_running_loop()
        responses = [await asyncio.wait_for(loop.sock_recv(sock, 512), PATIENCE) for sock in asking.sockets]
    return {read(response).answer[0].ttl for response in responses}


async def status_of(server: Serving) -> tuple[str, list[str]]:
    """Return the web interface's address, and the members in the status document."""
    where = server.endpoint("serving ")
    _, _, body = (await get(where, "/api/v1/status")).partition(b"\r\n\r\n")
    return where.host, [member["name"] for member in json.loads(body)["pools"][0]["members"]]


async def explained(folder: Path) -> list[str]:
    found = await asyncio.to_thread(lambda: send_command(folder / "control.sock", "explain", name="round.robin.hobbit"))
    return [member["name"] for member in found["explanation"]["members"]]


@pytest.mark.parametrize(("ttl", "reason"), [(HANGS, "hangs; a new process replaces it"), (DIES, "ended by SIGKILL")])
async def test_if_the_replacement_fails_too_all_keep_the_old_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ttl: int, reason: str
) -> None:
    async with faulty(tmp_path, monkeypatch) as server:
        before = workers_of(server)
        change(tmp_path, ttl)
        with pytest.raises(LbdnsError, match="workers 0 can't use the new configuration"):
            await reload(tmp_path)
        await server.waits_for("reload: the old configuration stays in force: workers 0 can't use")
        await server.waits_for(reason)  # the end of a worker may be logged after the reload
        assert not server.logged("reload: done")
        await until(lambda: len(workers_of(server)) == 2)
        assert before[1] in workers_of(server), "the healthy worker goes on"
        assert await ttls(server) == {1}
        assert await status_of(server) == ("127.0.0.1", list(OLD))
        assert await explained(tmp_path) == list(OLD)
        assert not (tmp_path / "members.txt").exists()
        assert await metric(server, "lbdns_worker_restarts_total") >= 2

        change(tmp_path, 3)
        assert (await reload(tmp_path))["ok"], "the next configuration is not affected"
        assert await ttls(server) == {3}
        assert await status_of(server) == ("127.0.0.2", list(NEW))


@pytest.mark.parametrize("ttl", [HANGS_ONCE, DIES_BEFORE_COMMIT, HANGS_BEFORE_COMMIT])
async def test_if_the_replacement_succeeds_all_take_up_the_new_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ttl: int
) -> None:
    async with faulty(tmp_path, monkeypatch) as server:
        change(tmp_path, ttl)
        assert (await reload(tmp_path))["ok"]
        await server.waits_for("reload: done")
        # One that hangs is replaced because it does not prepare in time, or because it does not reply
        await server.waits_for("; a new process replaces it" if ttl != DIES_BEFORE_COMMIT else "ended by SIGKILL")
        await until(lambda: len(workers_of(server)) == 2)
        assert await ttls(server) == {ttl}
        assert await status_of(server) == ("127.0.0.2", list(NEW))
        assert await explained(tmp_path) == list(NEW)
        await until((tmp_path / "members.txt").exists)


async def test_an_override_given_while_a_worker_hangs_outlives_the_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with faulty(tmp_path, monkeypatch) as server:
        change(tmp_path, HANGS)
        reloading = asyncio.create_task(reload(tmp_path))
        await asyncio.sleep(0.3)
        assert not reloading.done()
        answer = await asyncio.to_thread(lambda: send_command(tmp_path / "control.sock", "drain", member="gandalf"))
        assert answer["ok"]
        with pytest.raises(LbdnsError, match="can't use"):
            await reloading
        await until(lambda: len(workers_of(server)) == 2)
        with clients(server) as asking:
            for _ in range(3):
                asking.send()
                assert await asking.receive()
        assert set(asking.answers) == {"bilbo", "frodo"}
