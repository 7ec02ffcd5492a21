"""The collector alone, within the test's own event loop: what its event streams tell of a reload."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from lbdns.errors import ConfigError
from lbdns_collector.standalone import Standalone
from tests.collector.making import write_config
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
        write_config(tmp_path, more='[server]\nuser = "root"\n')
        with pytest.raises(ConfigError, match=r"lbdns\.toml: \[server\] user: changing it needs a restart"):
            await program.reload()
    finally:
        await program.stop()
