"""The scaler's HTTP server: its paths, and an address that is in use."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ListenError
from lbdns_tools.free_ports import free_ports
from lbdns_tools.scaler.running.status_server import STATUS_PATH, StatusServer
from lbdns_tools.scaler.settings.scaler_sections import ScalerSection
from tests.tools.scaler.running.scaled_loop import Scaled


async def test_status_metrics_and_errors(tmp_path: Path) -> None:
    scaled = Scaled(tmp_path, ScalerSection(farm="shop"))
    await scaled.driver.look()
    await scaled.round(20.0)
    listen = Endpoint("127.0.0.1", free_ports(1)[0])
    server = StatusServer(scaled.loop, listen)
    await server.start()
    try:
        with pytest.raises(ListenError, match=rf"\[scaler\] listen: {listen}: "):
            await StatusServer(scaled.loop, listen).start()
        async with aiohttp.ClientSession(f"http://{listen}") as session:
            async with session.get(STATUS_PATH) as response:
                assert response.content_type == "application/json"
                document = await response.json()
            assert (document["farm"], document["counts"]["in service"]) == ("shop", 2)
            async with session.get("/metrics") as response:
                assert response.content_type == "text/plain"
                assert 'lbdns_scaler_servers{state="in service"} 2.0\n' in await response.text()
            async with session.get("/livez") as response:
                assert await response.text() == "ok\n"
            async with session.post(STATUS_PATH) as response:
                assert response.status == 405
    finally:
        await server.stop()
