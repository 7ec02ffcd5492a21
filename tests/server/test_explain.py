"""Tests of explanations of answers: in the main process, through the web interface, and over DNS."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm, Pool
from lbdns.model.snapshot import Snapshot
from lbdns.policies import POLICIES
from lbdns.process.apply_configuration import commit_all
from lbdns.server.dns_service import AnsweringConfiguration
from lbdns.server.local_answerer import LocalAnswerer
from lbdns.server.server_status import ServerStatus
from lbdns.sockets.binding import bound_endpoint
from lbdns.sockets.dns_sockets import open_pair
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError, UnknownNameError
from tests.answering.asking import make_query, read, short
from tests.answering.farms import MEMBERS, hobbit, pool
from tests.overriding import drains
from tests.server.clients import ask_tcp, ask_udp, until
from tests.server.readings import Readings

NAMES = {policy.replace("_", "-"): policy for policy in POLICIES}
METRICS = {"cpu_idle": 80.0, "run_queue": 3.0, "busy_workers": 2.0, "cpu_count": 2.0, "requests_per_s": 5.0}


@asynccontextmanager
async def answering(farm: Farm) -> AsyncIterator[tuple[LocalAnswerer, Endpoint]]:
    """Answer queries in the test's process; all members have reported, and frodo has the highest score."""
    table = AnswerTable(farm)
    answerer = LocalAnswerer(table)
    udp, tcp = open_pair(Endpoint("127.0.0.1", 0))
    await commit_all([await answerer.prepare(AnsweringConfiguration(farm, table, (), [{1: udp, 2: tcp}]))])
    readings, now = Readings(), asyncio.get_running_loop().time()
    readings.report(now, metrics=METRICS)
    await deliver(answerer, readings.report(now, score=60, members=("frodo",), metrics=METRICS))
    try:
        yield answerer, bound_endpoint(udp)
    finally:
        udp.close()
        tcp.close()
        await answerer.stop()


async def deliver(answerer: LocalAnswerer, snapshot: Snapshot) -> None:
    """Deliver a snapshot, and wait until the plans of all pools reflect it."""
    answerer.deliver(snapshot)
    pools = answerer.responder.table.farm.pools
    scores = [[snapshot.readings[member.full_name].score for member in pool.members] for pool in pools]

    def known() -> bool:
        told = [answerer.explain_now(pool, next(iter(pool.config.names))) for pool in pools]
        return scores == [[member["score"] for member in document["members"]] for document in told if document]

    await until(known)


async def texts(here: Endpoint, name: str) -> list[str]:
    """Return the texts of a TXT answer in order."""
    response = read(await ask_tcp(here, make_query(f"explain.{name}", "TXT")))
    (rrset,) = response.answer
    return [b"".join(rdata.strings).decode() for rdata in rrset]


async def member_of(here: Endpoint, name: str, number: int) -> str:
    return short(read(await ask_udp(here, make_query(name, ident=number))).answer)[0][2].split(".")[0]


async def test_the_explained_member_comes_next_with_every_policy() -> None:
    farm = hobbit(pool(names=NAMES))
    (web,) = farm.pools
    async with answering(farm) as (answerer, here):
        for turn in range(5):
            for owner, policy in NAMES.items():
                told = await answerer.explain(web, owner)
                summary, first, *_ = await texts(here, f"{owner}.hobbit")
                again = await answerer.explain(web, owner)
                assert (told["next"], told["plan"]) == (again["next"], again["plan"]), "being told moves nothing"
                assert summary.startswith(f"next={told['next']} ({told['why']}) policy={policy} pool=web ")
                likely = max(member["probability"] for member in told["members"])
                assert f" p={likely:.2f} " in first
                assert await member_of(here, f"{owner}.hobbit", turn) == told["next"]
                given = answerer.responder.table.cursors["web", policy].taken
                assert given == told["plan"]["given"] + 1 == turn + 1
        assert answerer.answers("web").total() == 5 * len(NAMES)


async def test_the_explanation_names_the_worker() -> None:
    farm = hobbit()
    async with answering(farm) as (answerer, _):
        told = await answerer.explain(farm.pools[0], "best")
        assert (told["worker"], told["workers"]) == (0, 1)
        assert told["members"][0]["score_parts"] == {}, "50 is not what these metrics make"
    other = hobbit(pool("other", names={"x": "best"}))
    async with answering(farm) as (answerer, _):
        assert answerer.explain_now(other.pools[0], "x") is None
        with pytest.raises(LbdnsError, match=r"x\.hobbit: a reload is in progress; try again"):
            await answerer.explain(other.pools[0], "x")


async def test_the_web_interface_explains_by_name() -> None:
    farm = hobbit(pool(), pool("apex", names={"@": "best"}))
    async with answering(farm) as (answerer, _):
        source = ServerStatus(farm, answerer, EventLog())
        for name, found in [
            ("best", ("web", "best", "best.hobbit")),
            ("Round.Robin.HOBBIT.", ("web", "round.robin", "round.robin.hobbit")),
            ("hobbit", ("apex", "@", "hobbit")),
        ]:
            told = await source.selection.explain(name)
            assert (told["pool"], told["owner"], told["name"]) == found
            assert told["score_name"] == "headroom"
            assert told["time"] == pytest.approx(time.time(), abs=60)
        with pytest.raises(
            UnknownNameError, match=r"no pool serves the name 'bset.hobbit'. Perhaps you meant 'best.hobbit'"
        ):
            await source.selection.explain("bset.hobbit")
        score = source.scoring.score
        now = asyncio.get_running_loop().time()
        await deliver(answerer, Readings().report(now, score=score.of(METRICS), metrics=METRICS))
        told = await source.selection.explain("best")
        assert told["why"].startswith("traffic is light: one of 3 members that take turns")
        for member in told["members"]:
            assert member["score"] == score.of(METRICS)
            assert member["score"] - 0.02 <= sum(member["score_parts"].values()) < member["score"] + 1
            assert set(member["score_parts"]) == {"cpu_idle"}


async def test_requests_at_the_same_time_share_an_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    """An explanation of a large pool takes milliseconds, so a flood of requests must not ask for one each."""
    farm = hobbit(pool())
    async with answering(farm) as (answerer, _):
        source, made = ServerStatus(farm, answerer, EventLog()), 0
        explain_now = answerer.explain_now

        def counted(pool: Pool, owner: str) -> Mapping[str, Any] | None:
            nonlocal made
            made += 1
            return explain_now(pool, owner)

        monkeypatch.setattr(answerer, "explain_now", counted)
        told = await asyncio.gather(*(source.selection.explain("best.hobbit") for _ in range(20)))
        assert [each["name"] for each in told] == ["best.hobbit"] * 20
        assert made == 1
        await asyncio.gather(*(source.selection.explain(name) for name in ("best.hobbit", "best") * 10))
        assert made == 2


async def test_orders_and_reloads_show() -> None:
    farm = hobbit()
    async with answering(farm) as (answerer, here):
        answerer.override(drains("frodo.hobbit"))
        await until(lambda: "'state': 'drained'" in str(answerer.explain_now(farm.pools[0], "best")))
        summary, *members = await texts(here, "best.hobbit")
        assert not summary.startswith("next=frodo")
        (frodo,) = (text for text in members if text.startswith("frodo "))
        assert re.search(r" p=0\.00 .* state=drained \(drained by root: test\)", frodo)

        anew = hobbit(pool(members=MEMBERS[:2], names={"new": "round_robin"}))
        await commit_all([answerer.prepare_change(AnswerTable(anew), (), {}, answerer.listeners.numbers)])
        assert not read(await ask_tcp(here, make_query("explain.best.hobbit", "TXT"))).answer
        await until(
            lambda: "no other member" in str(answerer.explain_now(answerer.responder.table.farm.pools[0], "new"))
        )
        summary, *members = await texts(here, "new.hobbit")
        assert summary.startswith("next=bilbo (no other member can be selected) policy=round_robin ")
        assert len(members) == 2
