"""Tests of explanations with two workers: one worker explains on the web interface, both explain over DNS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
from pathlib import Path
from typing import Any, Final

from tests.answering.asking import make_query, read, short
from tests.server.clients import TcpClient, tcp_client, until
from tests.server.running import Serving
from tests.server.test_dns_server import get
from tests.server.workers.test_worker_pool import PORTS, several_workers, workers_of

NAMES: Final = 'names = { best = "best", "round.robin" = "round_robin" }'
NO_HISTORY: Final = "[history]\non = false\n"


async def page(server: Serving, name: str) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and the document of /api/v1/explain."""
    response = await get(server.endpoint("serving "), f"/api/v1/explain?name={name}")
    head, _, body = response.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def next_answers(server: Serving) -> dict[str, Any]:
    """Return the next answers of the only pool, as the status document shows them."""
    _, _, body = (await get(server.endpoint("serving "), "/api/v1/status")).partition(b"\r\n\r\n")
    found: dict[str, Any] = json.loads(body)["pools"][0]["next"]
    return found


async def next_of(connection: TcpClient) -> tuple[str, str]:
    """Return the explained member (the next to be selected), and the number of the worker that explains it."""
    (rrset,) = read(await connection.ask(make_query("explain.round.robin.hobbit", "TXT"))).answer
    found = re.match(r"next=(\w+) .* worker=(\d) members=3$", b"".join(rrset[0].strings).decode())
    assert found
    return found[1], found[2]


async def test_workers_explain(tmp_path: Path) -> None:
    async with several_workers(tmp_path, pool=f"{NAMES}\n{NO_HISTORY}") as server:
        for seq, (name, source) in enumerate([("frodo", "127.0.0.17"), ("gandalf", "127.0.0.18")], 1):
            server.report(name, 10.0 * seq, 1, source)
            await server.waits_for(f"{name} is usable")
        for _ in range(1000):  # a worker hears of a report a moment after it is logged
            status, told = await page(server, "best.hobbit")
            assert status == 200
            if told["next"] == "gandalf":
                break
        assert told["worker"] in (0, 1), "who answers first"
        assert (told["workers"], told["why"]) == (2, "traffic is light: highest score")
        members = {member["name"]: member for member in told["members"]}
        assert (members["bilbo"]["state"], members["bilbo"]["reason"]) == ("unknown", "has never reported")
        assert members["gandalf"]["metrics"] == {"cpu_idle": 20.0}
        assert members["gandalf"]["score_parts"] == {"cpu_idle": 20.0}
        assert members["gandalf"]["score"] == 20
        async with asyncio.timeout(60):  # the first status asks a worker, and a later one shows the reply
            while not (coming := await next_answers(server)):
                pass
        assert (coming["best"]["members"][0], coming["best"]["why"]) == ("gandalf", told["why"])
        assert sorted(coming["round_robin"]["members"][:2]) == ["frodo", "gandalf"]
        status, wrong = await page(server, "nobody")
        assert status == 404
        assert "no pool serves the name 'nobody'" in wrong["error"]

        # Each connection meets one worker, which tells of its own rotation
        heard = set()
        for _ in range(PORTS):
            async with tcp_client(server.endpoint()) as connection:
                told_next, worker = await next_of(connection)
                answer = read(await connection.ask(make_query("round.robin.hobbit"))).answer
                assert short(answer)[0][2] == f"{told_next}.hobbit."
                after, still = await next_of(connection)
                assert {told_next, after} == {"frodo", "gandalf"}, "they take turns"
                assert worker == still
                heard.add(worker)
        assert heard == {"0", "1"}


async def test_a_worker_that_does_not_answer_is_said_and_a_dead_one_is_passed_by(tmp_path: Path) -> None:
    async with several_workers(tmp_path, pool=NO_HISTORY) as server:
        pids = workers_of(server)
        os.kill(pids[0], signal.SIGSTOP)
        try:
            status, told = await page(server, "best")
            assert status == 200, "one that hangs doesn't matter"
            assert told["worker"] == 1 or pids[0] not in workers_of(server), "or it has been replaced"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[0], signal.SIGCONT)
        await until(lambda: len(workers_of(server)) == 2)
        # On a busy machine, the server may replace a worker that hangs before this reply is due
        for _ in range(5):
            for pid in workers_of(server):
                os.kill(pid, signal.SIGSTOP)
            status, wrong = await page(server, "best")
            for pid in workers_of(server):
                os.kill(pid, signal.SIGCONT)
            if status == 503:
                break
        assert (status, wrong["error"]) == (503, "best.hobbit: no worker replied within 2 s; try again")
        os.kill(workers_of(server)[0], signal.SIGKILL)
        await server.waits_for("was ended by SIGKILL")
        status, told = await page(server, "best")
        assert status == 200
        assert told["workers"] == 2
