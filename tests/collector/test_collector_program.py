"""Tests of the collector program in the test's event loop: the events that its streams send after a reload."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lbdns.history.history_reader import HistoryReader
from lbdns.process.apply_configuration import PreparedChange
from lbdns.process.state_format import FILE_NAME
from lbdns.process.state_lock import StateInUseError, exclusive
from lbdns_collector.collector_program import CollectorProgram
from lbdns_shared.errors import ConfigError, LbdnsError, ListenError
from tests.collector.collector_fixtures import KEY, OTHER_KEY, datagram, until, write_config, write_key
from tests.collector.web.fake_scaler import fake_scaler
from tests.collector.web.served_app import StreamEvents


async def test_a_reload_is_sent_to_followers_before_any_report(tmp_path: Path) -> None:
    program = CollectorProgram(write_config(tmp_path))
    await program.start()
    try:
        url = f"http://{program._web.address}/api/v1/events?changes=1"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            events = StreamEvents(response)
            assert set(await events.read("status")) == {"bilbo", "frodo", "gandalf"}
            write_config(tmp_path, members=["frodo"])
            await program.reload()
            assert set(await events.read("status")) == {"frodo"}
    finally:
        await program.stop()


async def test_a_reload_changes_the_scaler(tmp_path: Path) -> None:
    program = CollectorProgram(write_config(tmp_path))
    await program.start()
    try:
        async with fake_scaler() as scaler, aiohttp.ClientSession() as session:
            url = f"http://{program._web.address}/api/v1/scaler"
            async with session.get(url) as response:
                assert response.status == 404
            write_config(tmp_path, more=f'scaler = "{scaler.url}"\n')
            await program.reload()
            async with session.get(url) as response:
                assert (response.status, await response.json()) == (200, scaler.document)
    finally:
        await program.stop()


async def test_another_user_needs_a_restart(tmp_path: Path) -> None:
    program = CollectorProgram(write_config(tmp_path))
    await program.start()
    try:
        write_config(tmp_path, more='[server]\nstate_dir = "state"\nuser = "root"\n')
        with pytest.raises(ConfigError, match=r"lbdns\.toml: \[server\] user: a change requires a restart"):
            await program.reload()
    finally:
        await program.stop()


async def test_it_refuses_state_of_a_newer_version(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    program = CollectorProgram(path)
    await program.start()
    await program.stop()
    record = tmp_path / "state" / FILE_NAME
    assert record.exists()
    record.write_text('{"format": 99, "program": "9.8.7"}')
    with pytest.raises(ConfigError, match=r"lbdns 9\.8\.7 has written the files in .*/state in format 99"):
        CollectorProgram(path)


async def test_no_restore_happens_while_it_reads_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_config(tmp_path)
    read = []

    def read_state(file: Path) -> Any:
        with pytest.raises(StateInUseError), exclusive(tmp_path / "state"):
            pass
        read.append(file)

    monkeypatch.setattr("lbdns_collector.collector_program.check_state_format", read_state)
    program = CollectorProgram(path)
    assert read
    await program.stop()
    with exclusive(tmp_path / "state"), pytest.raises(LbdnsError, match="'lbdns restore' is replacing its files"):
        CollectorProgram(path)
    monkeypatch.setattr("lbdns_collector.collector_program.check_state_format", fail)
    with pytest.raises(ConfigError, match="failed"):
        CollectorProgram(path)
    with exclusive(tmp_path / "state"):
        assert len(read) == 1, "a program that did not start keeps no lock"


def fail(folder: Path) -> None:
    raise ConfigError("failed")


async def test_it_logs_state_changes(tmp_path: Path) -> None:
    path = write_config(tmp_path, collector='listen = ["127.0.0.1:0"]\nkey_file = "report.key"')
    write_key(tmp_path, KEY)
    program = CollectorProgram(path)
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
        assert "its agent stopped" in told[-1][1]
        assert not any(event.kind == "fail_open" for event in program.events.newest()), "it hands nobody out"
    finally:
        await program.stop()


async def test_it_records_history(tmp_path: Path) -> None:
    program = CollectorProgram(write_config(tmp_path))
    await program.start()
    assert program._status.program.history is not None
    await program.stop()
    told = HistoryReader(tmp_path / "state" / "history.db").events()
    assert [event.kind for event in told if event.kind == "server"] == ["server"]


@pytest.mark.parametrize("part", ["web", "reports", "members", "history"])
async def test_a_reload_in_which_a_part_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    program = CollectorProgram(write_config(tmp_path))
    await program.start()

    def seen() -> tuple[object, ...]:
        return (
            program._status.members.farm,
            program._collector.farm,
            program._collector.addresses,
            program._web.address,
        )

    async def fail(new: object) -> PreparedChange:
        raise ListenError(f"{part}: not available")

    try:
        before = seen()
        write_config(tmp_path, members=["frodo"], collector='listen = ["127.0.0.2:0"]')
        index = ("web", "reports", "members", "history").index(part)
        with monkeypatch.context() as patch:
            patch.setattr(program._parts[index], "prepare", fail)
            with pytest.raises(ListenError, match=f"^{part}: not available$"):
                await program.reload()
        assert seen() == before
        await program.reload()
        assert all(was != now for was, now in zip(before[:3], seen()[:3], strict=True))
    finally:
        await program.stop()
