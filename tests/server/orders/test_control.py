"""The control socket: orders in, answers out, and clients that can't hurt."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lbdns.control_client import order
from lbdns.errors import LbdnsError
from lbdns.server.orders import control
from lbdns.server.orders.control import MAX_CLIENTS, MAX_LINE, ControlSocket, Order
from tests.needs import needs
from tests.server.clients import PATIENCE, until

OURS = (os.geteuid(), os.getegid())


class Commands:
    """Some to try, and what they were given."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.hold = asyncio.Event()
        self.table = {"echo": self._echo, "refuse": self._refuse, "break": self._break, "wait": self._wait}

    async def _echo(self, order: Order) -> Mapping[str, Any]:
        self.orders.append(order)
        return {"words": dict(order.words)}

    async def _refuse(self, order: Order) -> Mapping[str, Any]:
        raise LbdnsError("lbdns.toml: not today")

    async def _break(self, order: Order) -> Mapping[str, Any]:
        raise RuntimeError("a mistake of ours")

    async def _wait(self, order: Order) -> Mapping[str, Any]:
        self.orders.append(order)
        await self.hold.wait()
        return {}


@asynccontextmanager
async def serving(path: Path, commands: Commands | None = None) -> AsyncIterator[ControlSocket]:
    server = ControlSocket((commands or Commands()).table)
    await server.serve_at(path, OURS)
    try:
        yield server
    finally:
        await server.stop()


async def say(path: Path, *lines: bytes) -> list[dict[str, Any]]:
    """What is answered to these lines of one client, until the server closes or all are answered."""
    reader, writer = await asyncio.open_unix_connection(path, limit=2**20)
    writer.write(b"".join(lines))
    answers: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE):
        while len(answers) < len(lines) and (line := await reader.readline()):
            answers.append(json.loads(line))
    writer.close()
    return answers


async def told(path: Path, command: str, **words: Any) -> Mapping[str, Any]:
    return await asyncio.to_thread(lambda: order(path, command, **words))


async def test_orders_are_answered_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "c"
    commands = Commands()
    async with serving(path, commands):
        assert await told(path, "echo", member="frodo") == {
            "ok": True,
            "words": {"command": "echo", "member": "frodo"},
        }
        answers = await say(path, b'{"command": "refuse"}\n', b'{"command": "echo"}\n')
        assert [answer["ok"] for answer in answers] == [False, True]
        assert [order.uid for order in commands.orders] == [os.geteuid()] * 2


async def test_what_fails_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c"
    async with serving(path):
        with pytest.raises(LbdnsError, match=r"lbdns\.toml: not today"):
            await told(path, "refuse")
        assert not caplog.records
        with pytest.raises(LbdnsError, match="the log of the server says what"):
            await told(path, "break")
        assert "a mistake of ours" in caplog.text
        assert (await told(path, "echo"))["ok"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"reload\n", "one JSON object"),
        (b"\xff\xfe\n", "one JSON object"),
        (b"[1]\n", "not an object"),
        (b"{}\n", "there is no 'None'"),
        (b'{"command": 5}\n', "there is no '5'"),
        (b'{"command": "ecko"}\n', "Perhaps you meant 'echo'?"),
        (b'{"command": "quite different"}\n', "known: echo, refuse, break, wait"),
        (b"[" * 5000 + b"\n", "one JSON object"),
        (b'{"command": "' + b"x" * MAX_LINE + b'"}\n', "one JSON object"),
    ],
)
async def test_bad_orders(tmp_path: Path, line: bytes, said: str) -> None:
    async with serving(tmp_path / "c"):
        (answer,) = await say(tmp_path / "c", line)
        assert not answer["ok"]
        assert said in answer["error"]
        assert (await told(tmp_path / "c", "echo"))["ok"]


async def test_many_and_silent_clients_leave_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.2)
    path = tmp_path / "c"
    async with serving(path) as server:
        silent = [await asyncio.open_unix_connection(path) for _ in range(MAX_CLIENTS)]
        await until(lambda: len(server._clients) == MAX_CLIENTS)
        with pytest.raises(LbdnsError):
            await told(path, "echo")  # no room yet
        for reader, _ in silent:
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b"", "they had their time"
        await until(lambda: not server._clients)
        assert (await told(path, "echo"))["ok"]
        for _, writer in silent:
            writer.close()


async def test_who_does_not_read_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.2)
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
        assert (await told(path, "echo"))["ok"]
    assert not path.exists()
    assert list(path.parent.iterdir()) == []


@needs(root=True)
async def test_the_file_is_given_to_who_the_server_becomes(tmp_path: Path) -> None:
    server = ControlSocket({})
    path = tmp_path / "folder" / "c"
    await server.serve_at(path, (65534, 65533))
    for made in (path, path.parent):
        assert (made.stat().st_uid, made.stat().st_gid) == (65534, 65533)
    await server.stop()


async def test_the_file_of_a_dead_server_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serving(path):
        assert (await told(path, "echo"))["ok"]


@pytest.mark.parametrize("trouble", ["alive", "file", "folder", "long", "link"])
async def test_what_can_not_be_had_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture, trouble: str) -> None:
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
            assert "another server takes orders there" in caplog.text
            assert (await told(path, "echo"))["ok"], "the other one's is not touched"


async def test_it_moves(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    async with serving(one) as server:
        await server.serve_at(two, OURS)
        assert (await told(two, "echo"))["ok"]
        with pytest.raises(LbdnsError, match="No such file"):
            await told(one, "echo")
        before = two.stat().st_ino
        await server.serve_at(two, OURS)
        assert two.stat().st_ino == before


async def test_a_successors_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "c"
    async with serving(path) as old:
        assert old._sock is not None
        old._sock.close()  # nobody listens any more, as after a take-over
        async with serving(path):
            await old.stop_listening()
            assert (await told(path, "echo"))["ok"]


async def test_stopping_waits_for_nobody(tmp_path: Path) -> None:
    commands = Commands()
    async with serving(tmp_path / "c", commands) as server:
        asking = asyncio.create_task(say(tmp_path / "c", b'{"command": "wait"}\n'))
        await until(lambda: commands.orders)
        await asyncio.wait_for(server.stop(), 5)
        assert await asking == []


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(LbdnsError, match=r"No such file or directory\. Is 'lbdns serve' running"):
        order(tmp_path / "c", "reload")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "c"))
    with pytest.raises(LbdnsError, match="Connection refused"):
        order(tmp_path / "c", "reload")
