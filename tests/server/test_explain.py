"""An answering process explains its answers: to the main process, to the pages, and over DNS."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lbdns.answering.table import Table
from lbdns.endpoint import Endpoint
from lbdns.errors import LbdnsError, UnknownNameError
from lbdns.events import Events
from lbdns.farm import Farm
from lbdns.listening import bound_endpoint
from lbdns.policies import POLICIES
from lbdns.server.alone import Alone
from lbdns.server.answerer import Work
from lbdns.server.net.listen import open_pair
from lbdns.server.source import ServerSource
from lbdns.snapshot import Snapshot
from tests.answering.asking import make_query, read, short
from tests.answering.farms import MEMBERS, hobbit, pool
from tests.overriding import drains
from tests.server.clients import ask_tcp, ask_udp, until
from tests.server.readings import Readings

NAMES = {policy.replace("_", "-"): policy for policy in POLICIES}
METRICS = {"cpu_idle": 80.0, "run_queue": 3.0, "busy_workers": 2.0, "cpu_count": 2.0, "requests_per_s": 5.0}


@asynccontextmanager
async def answering(farm: Farm) -> AsyncIterator[tuple[Alone, Endpoint]]:
    """One process' answers; all members have reported, frodo with the highest score."""
    table = Table(farm)
    alone = Alone(table)
    udp, tcp = open_pair(Endpoint("127.0.0.1", 0))
    await alone.use(Work(farm, table, (), [{1: udp, 2: tcp}]))
    readings, now = Readings(), asyncio.get_running_loop().time()
    readings.report(now, metrics=METRICS)
    await deliver(alone, readings.report(now, score=60, members=("frodo",), metrics=METRICS))
    try:
        yield alone, bound_endpoint(udp)
    finally:
        udp.close()
        tcp.close()
        await alone.stop()


async def deliver(alone: Alone, snapshot: Snapshot) -> None:
    """Until all pools go by it: where planning takes long, each has a turn of its own."""
    alone.deliver(snapshot)
    pools = alone.responder.table.farm.pools
    scores = [[snapshot.readings[member.full_name].score for member in pool.members] for pool in pools]

    def known() -> bool:
        told = [alone.explain_now(pool, next(iter(pool.config.names))) for pool in pools]
        return scores == [[member["score"] for member in document["members"]] for document in told if document]

    await until(known)


async def texts(here: Endpoint, name: str) -> list[str]:
    """What is told over DNS, in order."""
    response = read(await ask_tcp(here, make_query(f"explain.{name}", "TXT")))
    (rrset,) = response.answer
    return [b"".join(rdata.strings).decode() for rdata in rrset]


async def member_of(here: Endpoint, name: str, number: int) -> str:
    return short(read(await ask_udp(here, make_query(name, ident=number))).answer)[0][2].split(".")[0]


async def test_what_is_told_comes_next_whatever_the_policy() -> None:
    farm = hobbit(pool(names=NAMES))
    (web,) = farm.pools
    async with answering(farm) as (alone, here):
        for turn in range(5):
            for owner, policy in NAMES.items():
                told = await alone.explain(web, owner)
                summary, first, *_ = await texts(here, f"{owner}.hobbit")
                again = await alone.explain(web, owner)
                assert (told["next"], told["plan"]) == (again["next"], again["plan"]), "being told moves nothing"
                assert summary.startswith(f"next={told['next']} ({told['why']}) policy={policy} pool=web ")
                likely = max(member["probability"] for member in told["members"])
                assert f" p={likely:.2f} " in first
                assert await member_of(here, f"{owner}.hobbit", turn) == told["next"]
                given = alone.responder.table.handouts["web", policy].given
                assert given == told["plan"]["given"] + 1 == turn + 1
        assert alone.answers("web").total() == 5 * len(NAMES)


async def test_it_says_who_explains() -> None:
    farm = hobbit()
    async with answering(farm) as (alone, _):
        told = await alone.explain(farm.pools[0], "best")
        assert (told["worker"], told["workers"]) == (0, 1)
        assert told["members"][0]["score_parts"] == {}, "50 is not what these metrics make"
    other = hobbit(pool("other", names={"x": "best"}))
    async with answering(farm) as (alone, _):
        assert alone.explain_now(other.pools[0], "x") is None
        with pytest.raises(LbdnsError, match=r"x\.hobbit: a reload is under way; ask again"):
            await alone.explain(other.pools[0], "x")


async def test_the_pages_are_told_by_name() -> None:
    farm = hobbit(pool(), pool("apex", names={"@": "best"}))
    async with answering(farm) as (alone, _):
        source = ServerSource(farm, alone, Events())
        for name, found in [
            ("best", ("web", "best", "best.hobbit")),
            ("Round.Robin.HOBBIT.", ("web", "round.robin", "round.robin.hobbit")),
            ("hobbit", ("apex", "@", "hobbit")),
        ]:
            told = await source.explain(name)
            assert (told["pool"], told["owner"], told["name"]) == found
            assert told["score_name"] == "thesis"
            assert told["time"] == pytest.approx(time.time(), abs=60)
        with pytest.raises(
            UnknownNameError, match=r"no pool is asked by 'bset.hobbit'. Perhaps you meant 'best.hobbit'"
        ):
            await source.explain("bset.hobbit")
        score = source.score
        now = asyncio.get_running_loop().time()
        await deliver(alone, Readings().report(now, score=score.of(METRICS), metrics=METRICS))
        told = await source.explain("best")
        assert told["why"].endswith("which 3 members have: they take turns")
        for member in told["members"]:
            assert member["score"] == score.of(METRICS)
            assert member["score"] - 0.02 <= sum(member["score_parts"].values()) < member["score"] + 1
            assert set(member["score_parts"]) == {"cpu_idle", "run_queue", "requests_per_s"}


async def test_orders_and_reloads_show() -> None:
    farm = hobbit()
    async with answering(farm) as (alone, here):
        alone.override(drains("frodo.hobbit"))
        await until(lambda: "'state': 'drained'" in str(alone.explain_now(farm.pools[0], "best")))
        summary, *members = await texts(here, "best.hobbit")
        assert not summary.startswith("next=frodo")
        (frodo,) = (text for text in members if text.startswith("frodo "))
        assert re.search(r" p=0\.00 .* state=drained \(drained by root: test\)", frodo)

        anew = hobbit(pool(members=MEMBERS[:2], names={"new": "round_robin"}))
        await alone.go_on(Table(anew), (), {}, alone.listeners.numbers)
        assert not read(await ask_tcp(here, make_query("explain.best.hobbit", "TXT"))).answer
        await until(lambda: "no other member" in str(alone.explain_now(alone.responder.table.farm.pools[0], "new")))
        summary, *members = await texts(here, "new.hobbit")
        assert summary.startswith("next=bilbo (no other member can be handed out) policy=round_robin ")
        assert len(members) == 2
