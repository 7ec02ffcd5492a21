"""Tests of the control socket: commands, replies, and misbehaving clients."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lbdns.client.control_client import send_command
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.process.apply_configuration import apply
from lbdns.server.control import control_socket
from lbdns.server.control.control_socket import MAX_CLIENTS, MAX_COMMAND, ControlCommand, ControlSocket
from lbdns_shared.errors import LbdnsError, ListenError
from tests.answering.farms import hobbit
from tests.needs import needs
from tests.server.clients import PATIENCE, until

OURS = (os.geteuid(), os.getegid())


class Commands:
    """Commands for tests. Each records its arguments."""

    def __init__(self) -> None:
        self.orders: list[ControlCommand] = []
        self.hold = asyncio.Event()
        self.table = {"echo": self._echo, "refuse": self._refuse, "break": self._break, "wait": self._wait}

    async def _echo(self, order: ControlCommand) -> Mapping[str, Any]:
        self.orders.append(order)
        return {"words": dict(order.fields)}

    async def _refuse(self, order: ControlCommand) -> Mapping[str, Any]:
        raise LbdnsError("lbdns.toml: not today")

    async def _break(self, order: ControlCommand) -> Mapping[str, Any]:
        raise RuntimeError("a mistake of ours")

    async def _wait(self, order: ControlCommand) -> Mapping[str, Any]:
        self.orders.append(order)
        await self.hold.wait()
        return {}


@asynccontextmanager
async def serving(path: Path, commands: Commands | None = None) -> AsyncIterator[ControlSocket]:
    server = ControlSocket((commands or Commands()).table)
    await server.start(path, OURS)
    try:
        yield server
    finally:
        await server.stop()


async def say(path: Path, *lines: bytes) -> list[dict[str, Any]]:
    """Send lines from one client; return the replies received until all are answered or the server disconnects."""
    reader, writer = await asyncio.open_unix_connection(path, limit=2**20)
    writer.write(b"".join(lines))
    answers: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE):
        while len(answers) < len(lines) and (line := await reader.readline()):
            answers.append(json.loads(line))
    writer.close()
    return answers


async def reply_to(path: Path, command: str, **words: Any) -> Mapping[str, Any]:
    return await asyncio.to_thread(lambda: send_command(path, command, **words))


async def test_orders_are_answered_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "c"
    commands = Commands()
    async with serving(path, commands):
        assert await reply_to(path, "echo", member="frodo") == {
            "ok": True,
            "words": {"command": "echo", "member": "frodo"},
        }
        answers = await say(path, b'{"command": "refuse"}\n', b'{"command": "echo"}\n')
        assert [answer["ok"] for answer in answers] == [False, True]
        assert [order.uid for order in commands.orders] == [os.geteuid()] * 2


async def test_a_failing_command_replies_with_its_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c"
    async with serving(path):
        with pytest.raises(LbdnsError, match=r"lbdns\.toml: not today"):
            await reply_to(path, "refuse")
        assert not caplog.records
        with pytest.raises(LbdnsError, match="see the server's log for the reason"):
            await reply_to(path, "break")
        assert "a mistake of ours" in caplog.text
        assert (await reply_to(path, "echo"))["ok"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"reload\n", "one JSON object"),
        (b"\xff\xfe\n", "one JSON object"),
        (b"[1]\n", "not a JSON object"),
        (b"{}\n", "unknown command 'None'"),
        (b'{"command": 5}\n', "unknown command '5'"),
        (b'{"command": "ecko"}\n', "Perhaps you meant 'echo'?"),
        (b'{"command": "quite different"}\n', "known: echo, refuse, break, wait"),
        (b"[" * 5000 + b"\n", "one JSON object"),
        (b'{"command": "' + b"x" * MAX_COMMAND + b'"}\n', "one JSON object"),
    ],
)
async def test_bad_orders(tmp_path: Path, line: bytes, said: str) -> None:
    async with serving(tmp_path / "c"):
        (answer,) = await say(tmp_path / "c", line)
        assert not answer["ok"]
        assert said in answer["error"]
        assert (await reply_to(tmp_path / "c", "echo"))["ok"]


async def test_a_new_client_replaces_the_oldest_that_waits(tmp_path: Path) -> None:
    path = tmp_path / "c"
    async with serving(path) as server:
        silent = [await asyncio.open_unix_connection(path) for _ in range(MAX_CLIENTS)]
        await until(lambda: len(server._clients) == MAX_CLIENTS)
        assert (await reply_to(path, "echo"))["ok"]
        assert await asyncio.wait_for(silent[0][0].read(), PATIENCE) == b""
        assert not silent[1][0].at_eof()
        for _, writer in silent:
            writer.close()


async def test_silent_clients_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "PATIENCE", 0.2)
    path = tmp_path / "c"
    async with serving(path) as server:
        silent = [await asyncio.open_unix_connection(path) for _ in range(3)]
        for reader, writer in silent:
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b"", "they had their time"
            writer.close()
        await until(lambda: not server._clients)
        assert (await reply_to(path, "echo"))["ok"]


async def test_commands_in_progress_are_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "MAX_CLIENTS", 2)
    path, commands = tmp_path / "c", Commands()
    async with serving(path, commands):
        asking = [asyncio.create_task(say(path, b'{"command": "wait"}\n')) for _ in range(2)]
        await until(lambda: len(commands.orders) == 2)
        with pytest.raises(LbdnsError, match="too many commands are in progress; retry later"):
            await reply_to(path, "echo")
        commands.hold.set()
        assert await asyncio.gather(*asking) == [[{"ok": True}]] * 2
        assert (await reply_to(path, "echo"))["ok"]


async def test_no_flood_of_commands_holds_up_other_work(tmp_path: Path) -> None:
    """In each iteration of the event loop, at most one command starts, whatever clients send and do not read."""
    path, commands = tmp_path / "c", Commands()
    async with serving(path, commands):
        flood = [await asyncio.open_unix_connection(path, limit=1) for _ in range(8)]
        for _, writer in flood:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b'{"command": "echo"}\n{"command": "ehco"}\n' * 500)
        most = seen = 0
        while seen < 100:
            await asyncio.sleep(0)
            most, seen = max(most, len(commands.orders) - seen), len(commands.orders)
        assert most == 1
        assert (await reply_to(path, "echo"))["ok"], "a newcomer has its turn among the others"
        for _, writer in flood:
            writer.transport.abort()


async def test_a_client_that_does_not_read_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "PATIENCE", 0.2)
    async with serving(tmp_path / "c") as server:
        _, writer = await asyncio.open_unix_connection(tmp_path / "c", limit=1)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        line = json.dumps({"command": "echo", "text": "x" * 60_000}).encode() + b"\n"
        writer.write(line * 20)
        await until(lambda: server._clients)
        await until(lambda: not server._clients)
        writer.transport.abort()


async def test_the_file_is_for_owner_and_group_and_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "c"
    async with serving(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert (await reply_to(path, "echo"))["ok"]
    assert not path.exists()
    assert list(path.parent.iterdir()) == []


@needs(root=True)
async def test_the_file_belongs_to_the_configured_user(tmp_path: Path) -> None:
    server = ControlSocket({})
    path = tmp_path / "folder" / "c"
    await server.start(path, (65534, 65533))
    for made in (path, path.parent):
        assert (made.stat().st_uid, made.stat().st_gid) == (65534, 65533)
    await server.stop()


async def test_the_file_of_a_dead_server_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serving(path):
        assert (await reply_to(path, "echo"))["ok"]


@pytest.mark.parametrize("trouble", ["alive", "file", "folder", "long", "link"])
async def test_an_unavailable_path_is_a_warning_at_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    path = tmp_path / "c"
    (tmp_path / "file").write_text("precious")
    where = {"file": tmp_path / "file", "folder": tmp_path / "file" / "c", "long": tmp_path / ("x" * 120)}.get(
        trouble, path
    )
    if trouble == "link":
        path.symlink_to(tmp_path / "file")
    async with serving(path if trouble == "alive" else tmp_path / "other"):
        caplog.clear()
        async with serving(where):
            (record,) = caplog.records
            assert record.levelname == "WARNING"
            assert record.getMessage().startswith(f"[server] control: {where}: ")
        assert (tmp_path / "file").read_text() == "precious"
        if trouble == "alive":
            assert "another server is listening on this path" in caplog.text
            assert (await reply_to(path, "echo"))["ok"], "the other one's is not touched"


def at(path: Path) -> CheckedConfiguration:
    """Return a configuration whose control socket is at ``path``."""
    farm = hobbit()
    server = replace(farm.config.server, control=path)
    return CheckedConfiguration(replace(farm, config=replace(farm.config, server=server)), ())


async def test_it_does_not_move_to_an_unavailable_path(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    two.write_text("precious")
    async with serving(one) as server:
        with pytest.raises(ListenError, match=rf"^\[server\] control: {two}: "):
            await apply([server], at(two))
        assert (await reply_to(one, "echo"))["ok"]
    assert two.read_text() == "precious"


async def test_a_move_that_rolls_back_leaves_nothing_behind(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    async with serving(one) as server:
        change = await server.prepare(at(two))
        assert two.exists()
        await change.rollback()
        assert not two.exists()
        assert (await reply_to(one, "echo"))["ok"]


async def test_it_moves(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    moved = at(two)
    async with serving(one) as server:
        await apply([server], moved)
        assert (await reply_to(two, "echo"))["ok"]
        with pytest.raises(LbdnsError, match="No such file"):
            await reply_to(one, "echo")
        before = two.stat().st_ino
        await apply([server], moved)
        assert two.stat().st_ino == before


async def test_a_successors_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "c"
    async with serving(path) as old:
        assert old._sock is not None
        old._sock.close()  # nobody listens any more, as after a take-over
        async with serving(path):
            await old.stop_listening()
            assert (await reply_to(path, "echo"))["ok"]


async def test_stopping_does_not_wait(tmp_path: Path) -> None:
    commands = Commands()
    async with serving(tmp_path / "c", commands) as server:
        asking = asyncio.create_task(say(tmp_path / "c", b'{"command": "wait"}\n'))
        await until(lambda: commands.orders)
        await asyncio.wait_for(server.stop(), 60)
        assert await asking == []


def test_without_a_server_the_client_gets_an_error(tmp_path: Path) -> None:
    with pytest.raises(LbdnsError, match=r"No such file or directory\. Is 'lbdns serve' running"):
        send_command(tmp_path / "c", "reload")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "c"))
    with pytest.raises(LbdnsError, match="Connection refused"):
        send_command(tmp_path / "c", "reload")
