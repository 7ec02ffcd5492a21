"""Tests with two workers: each soon learns how many answers the other gave, and shadow statistics are summed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any, Final

from lbdns.client.control_client import send_command
from lbdns_shared.report import Report, encode
from tests.answering.asking import make_query, read, short
from tests.config.config_files import pool_table
from tests.server.clients import PATIENCE, until
from tests.server.running import Serving, serving, write_config
from tests.server.test_dns_server import get
from tests.server.workers.test_worker_pool import (
    PORTS,
    Clients,
    clients,
    metric,
    metric_becomes,
    several_workers,
    stop,
    workers_of,
)  # fmt: skip

MEMBERS: Final = {"bilbo": "127.0.0.16", "frodo": "127.0.0.17", "gandalf": "127.0.0.18"}
CROWD: Final = 60  # answers: three times what counts as few in ten seconds with a report a second
LOOKS: Final = 12  # answers to who looks: by themselves they are few
ATTEMPTS: Final = 3  # pools: this machine may be busy with something else for a while, but not each time


def pools() -> str:
    """Return further pools, each with the same members and a different name."""
    text = ""
    for number in range(ATTEMPTS):
        text += "\n" + pool_table(*MEMBERS, name=f"p{number}", more=f'names = {{ best{number} = "best" }}')
    return text


class Agents:
    """Three hosts that report. If traffic is light, best selects only the highest score, although that host is busy."""

    def __init__(self, server: Serving) -> None:
        self._collector = server.endpoint("receiving reports on ")
        self._seq = 0

    def report(self) -> None:
        self._seq += 1
        for name, address in MEMBERS.items():
            best = name == "frodo"
            metrics = {"cpu_idle": 100.0 if best else 10.0, "busy_workers": 500.0 if best else 0.0}
            report = Report(name, boot=1, seq=self._seq, time=time.time(), interval=1.0, metrics=metrics)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.bind((address, 0))
                sock.sendto(encode(report), (self._collector.host, self._collector.port))


async def ask(sock: socket.socket, name: str, number: int) -> str:
    query = make_query(name)
    sock.send(number.to_bytes(2, "big") + query[2:])
    response = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 512), PATIENCE)
    return short(read(response).answer)[0][2].split(".")[0]


async def one_of_each(server: Serving, asking: Clients) -> tuple[socket.socket, socket.socket]:
    """Return one client socket for each worker."""
    stopped, _ = workers_of(server)
    await stop(stopped)
    asking.send()
    await asking.receive_first()
    waiting = set(asking.waiting)
    assert 0 < len(waiting) < PORTS
    os.kill(stopped, signal.SIGCONT)
    assert await asking.receive()
    return asking.sockets[min(waiting)], asking.sockets[min(set(range(PORTS)) - waiting)]


async def test_a_crowd_at_one_worker_is_a_crowd_for_the_other_within_a_second(tmp_path: Path) -> None:
    async with several_workers(tmp_path, pool=pools()) as server:
        agents = Agents(server)
        agents.report()
        for name in MEMBERS:
            await server.waits_for(f"pool p{ATTEMPTS - 1}: {name} is usable")
        taken = []
        with clients(server) as asking:
            crowd, other = await one_of_each(server, asking)
            for attempt in range(ATTEMPTS):
                name = f"best{attempt}.hobbit"
                assert await ask(other, name, 1) == "frodo", "few: the highest score"
                for number in range(CROWD):
                    await ask(crowd, name, number)
                began = time.monotonic()
                for look in range(LOOKS):
                    agents.report()  # plans are made with reports
                    await asyncio.sleep(0.1)
                    if await ask(other, name, 2 + look) != "frodo":
                        taken.append(time.monotonic() - began)
                        break
        assert taken, "what this worker was asked itself is few"
        assert min(taken) < 1.0


async def status(server: Serving) -> dict[str, Any]:
    _, _, body = (await get(server.endpoint("serving "), "/api/v1/status")).partition(b"\r\n\r\n")
    pool: dict[str, Any] = json.loads(body)["pools"][0]
    return pool


SHADOW: Final = 'policy="best",pool="web",shadow="best_score"'


async def test_shadows_add_up_over_workers_deaths_and_a_reload(tmp_path: Path) -> None:
    async with several_workers(tmp_path, pool='shadow = "best_score"') as server:
        agents = Agents(server)
        agents.report()
        await server.waits_for("frodo is usable")
        with clients(server, "best.hobbit") as asking:
            for _ in range(5):
                asking.send()
                assert await asking.receive()
            agents.report()
            await until_diverted(server)
            sent = 5 * PORTS
            await metric_becomes(server, sent, "lbdns_answers_total", 'policy="best"')
            await metric_becomes(server, sent, "lbdns_shadow_answers_total", SHADOW)
            (tried, *_) = (await status(server))["shadow"]
            assert (tried["policy"], tried["shadow"], tried["score"]) == ("best", "best_score", None)
            assert sum(tried["answers"].values()) == sent
            assert tried["answers"]["frodo"] > 0.5 * sent, "before the first report it took turns as well"
            diverted = tried["diverted"]
            assert 0 < diverted < sent
            assert tried["diverted_share"] == round(diverted / sent, 4)

            os.kill(workers_of(server)[0], signal.SIGKILL)
            await server.waits_for("was ended by SIGKILL")
            await until(lambda: len(workers_of(server)) == 2)
            await asyncio.to_thread(send_command, tmp_path / "control.sock", "reload")
            asking.send()
            assert await asking.receive()
            await metric_becomes(server, sent + PORTS, "lbdns_shadow_answers_total", SHADOW)
            assert await metric(server, "lbdns_shadow_diverted_total", SHADOW) >= diverted


async def until_diverted(server: Serving) -> None:
    """Wait until both workers have planned from the newest report, and have counted diverted selections."""
    end, before = time.monotonic() + PATIENCE, -1
    while (now := (await status(server))["shadow"][0]["diverted"]) != before or not now:
        assert time.monotonic() < end
        before = now
        await asyncio.sleep(0.05)


async def test_a_server_that_takes_the_place_of_another_goes_on_counting(tmp_path: Path) -> None:
    config = write_config(tmp_path, web="127.0.0.1:0", pool='shadow = "best_score"')
    async with serving(config) as first:
        agents = Agents(first)
        agents.report()
        await first.waits_for("frodo is usable")
        with clients(first, "best.hobbit") as asking:
            asking.send()
            assert await asking.receive()
            async with serving(config, "--take-over") as second:
                assert await first.stopped() == 0
                asking.send()
                assert await asking.receive()
                (tried, *_) = (await status(second))["shadow"]
                assert sum(tried["answers"].values()) == 2 * PORTS
