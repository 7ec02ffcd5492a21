"""The collector alone, within the test's own event loop: what its event streams tell of a reload."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import aiohttp
import pytest

from lbdns.errors import ConfigError
from lbdns.history.reader import Reader
from lbdns_collector.standalone import Standalone
from tests.collector.making import KEY, OTHER_KEY, datagram, until, write_config, write_key
from tests.collector.web.serving import Events


async def test_a_reload_is_told_to_followers_before_any_report(tmp_path: Path) -> None:
    program = Standalone(write_config(tmp_path))
    await program.start()
    try:
        url = f"http://{program._pages.address}/api/v1/events?changes=1"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            events = Events(response)
            assert set(await events.read("status")) == {"bilbo", "frodo", "gandalf"}
            write_config(tmp_path, members=["frodo"])
            await program.reload()
            assert set(await events.read("status")) == {"frodo"}
    finally:
        await program.stop()


async def test_another_user_needs_a_restart(tmp_path: Path) -> None:
    program = Standalone(write_config(tmp_path))
    await program.start()
    try:
        write_config(tmp_path, more='[server]\nstate_dir = "state"\nuser = "root"\n')
        with pytest.raises(ConfigError, match=r"lbdns\.toml: \[server\] user: changing it needs a restart"):
            await program.reload()
    finally:
        await program.stop()


async def test_it_tells_what_becomes_of_members(tmp_path: Path) -> None:
    path = write_config(tmp_path, collector='listen = ["127.0.0.1:0"]\nkey_file = "report.key"')
    write_key(tmp_path, KEY)
    program = Standalone(path)
    await program.start()
    try:
        (collector,) = program._collector.addresses
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((collector.host, collector.port))
            sock.send(datagram("gandalf", at=time.time()))
            sock.send(datagram("gandalf", at=time.time(), seq=2, kind="bye"))
            sock.send(datagram("gandalf", at=time.time(), key=OTHER_KEY))
            await until(lambda: any(event.kind == "key" for event in program.events.newest()))
        told = [(event.member, event.text) for event in program.events.newest() if event.kind == "state"]
        assert told[-1][0] == "gandalf"
        assert "gandalf is silent (was " in told[-1][1]
        assert "its agent said goodbye" in told[-1][1]
        assert not any(event.kind == "fail_open" for event in program.events.newest()), "it hands nobody out"
    finally:
        await program.stop()


async def test_it_records(tmp_path: Path) -> None:
    program = Standalone(write_config(tmp_path))
    await program.start()
    assert program._source.history is not None
    await program.stop()
    told = Reader(tmp_path / "state" / "history.db").events()
    assert [event.kind for event in told if event.kind == "server"] == ["server"]
