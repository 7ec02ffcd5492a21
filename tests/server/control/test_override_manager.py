"""Tests of overrides: their effects, their expiry, and refused requests."""

from __future__ import annotations

import getpass
import json
import os
import stat
import time
from pathlib import Path

import pytest

from lbdns.model.overrides import NO_OVERRIDES, Override, Overrides
from lbdns.server.control import override_file, override_manager
from lbdns_shared.errors import LbdnsError
from tests.answering.farms import hobbit, pool
from tests.server.clients import until
from tests.server.control.desk import TWO_POOLS, desk


async def test_a_drain_is_in_force_at_once_recorded_and_written(tmp_path: Path) -> None:
    async with desk(tmp_path / "state") as server:
        answer = await server.say("drain", for_s=7200, reason="new kernel", uid=os.getuid())
        assert server.order() == ["bilbo", "gandalf"]
        (document,) = answer["in_force"]
        user = getpass.getuser()
        assert document["until"] - document["since"] == pytest.approx(7200)
        assert (document["kind"], document["member"], document["pools"]) == ("drain", "frodo.hobbit", ["web"])
        assert document["text"] == f"drained by {user}: new kernel"
        assert (answer["kept"], answer["ended"], answer["notes"]) == (True, [], [])
        assert server.recorded() == [f"pool web: frodo drained by {user} for 2h: new kernel"]
        (event,) = [event for event in server.events.newest() if event.kind == "override"]
        assert (event.pool, event.member, event.level) == ("web", "frodo", "info")
        assert json.loads(server.file.read_bytes())["overrides"][0]["by"] == user
        assert stat.S_IMODE(server.file.stat().st_mode) == 0o600
        assert [path.name for path in server.file.parent.iterdir()] == ["overrides.json"]
        answer = await server.say("undrain", reason="done", uid=os.getuid())
        assert server.order() == ["bilbo", "frodo", "gandalf"]
        assert (answer["in_force"], [o["kind"] for o in answer["ended"]]) == ([], ["drain"])
        assert server.recorded()[-1] == (
            f"pool web: frodo no longer drained: {user} ended the drain, reason: done (its reason: new kernel)"
        )
        assert json.loads(server.file.read_bytes()) == {"overrides": []}


async def test_an_unknown_user_is_named_by_number(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        assert (await server.say("drain", uid=4_000_000_000 - 2**32))["in_force"][0]["by"] == "uid 4000000000"


async def test_without_overrides_there_is_no_file(tmp_path: Path) -> None:
    async with desk(tmp_path / "state"):
        pass
    assert not (tmp_path / "state").exists()


async def test_force_and_weight(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        server.report("frodo", interval=0.001)
        await until(lambda: server.order() == ["bilbo", "gandalf"])  # silent
        await server.say("force", to="up")
        assert server.order() == ["bilbo", "frodo", "gandalf"]
        await server.say("force", to="down", reason="no")
        assert server.order() == ["bilbo", "gandalf"]
        assert [o.kind for o in server.manager.overrides.items] == ["down"], "one at a time"
        await server.say("weight", "bilbo", factor=3)
        assert server.answerer.planner.capacities("web")[0][0] == 3.0
        assert [o["kind"] for o in (await server.say("overrides"))["in_force"]] == ["down", "weight"]
        assert (await server.say("force", to="auto"))["in_force"] == []
        await server.say("weight", "bilbo", factor=1)
        assert server.manager.overrides == NO_OVERRIDES
        user = "root"
        assert server.recorded() == [
            f"pool web: frodo forced up by {user}",
            f"pool web: frodo forced down by {user}: no",
            f"pool web: bilbo given weight 3 by {user}",
            f"pool web: frodo no longer forced down: {user} ended the forced state (its reason: no)",
            f"pool web: bilbo no longer has weight 3: {user} ended the weight",
        ]


async def test_drained_and_forced_up_is_noted(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        await server.say("drain")
        answer = await server.say("force", to="up")
        assert server.order() == ["bilbo", "gandalf"]
        assert answer["notes"] == ["frodo.hobbit is drained; a drain takes precedence over a forced state"]
        await server.say("undrain")
        assert server.order() == ["bilbo", "frodo", "gandalf"]


# Pools


async def test_a_machine_in_several_pools_is_drained_in_all_or_in_one(tmp_path: Path) -> None:
    async with desk(tmp_path, TWO_POOLS) as server:
        await server.say("drain", pool="mail")
        assert (server.order(), server.order("mail")) == (["bilbo", "frodo", "gandalf"], ["gandalf"])
        with pytest.raises(
            LbdnsError, match=r"is not drained in pool web; overrides in force: drained by root \(pool mail\)"
        ):
            await server.say("undrain", pool="web")
        answer = await server.say("drain", "bilbo")
        assert answer["in_force"][0]["pools"] == ["web"]
        await server.say("undrain", "bilbo")
        answer = await server.say("drain", reason="both")
        assert (server.order(), server.order("mail")) == (["bilbo", "gandalf"], ["gandalf"])
        assert [(o.pool, o.reason) for o in server.manager.overrides.items] == [("", "both")], "it says all"
        assert server.recorded()[-1] == "pools web, mail: frodo.hobbit drained by root: both"
        with pytest.raises(LbdnsError, match="applies to every pool and can't be ended for pool web alone"):
            await server.say("undrain", pool="web")
        await server.say("weight", pool="mail", factor=2)
        await server.say("undrain")
        assert [o.kind for o in server.manager.overrides.items] == ["weight"]
        assert server.order("mail") == ["frodo", "gandalf"]


# Who can't be spared


async def test_the_last_usable_member_stays_unless_it_is_forced(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        server.report("bilbo", interval=0.001)
        await until(lambda: server.order() == ["frodo", "gandalf"])
        await server.say("drain", "gandalf", reason="disk")
        for command, to in (("drain", {}), ("force", {"to": "down"})):
            with pytest.raises(LbdnsError) as refused:
                await server.say(command, "frodo", uid=0, **to)
            assert str(refused.value).startswith(
                "frodo is the last usable member of pool web (the others: bilbo: no report for 0."
            )
            assert str(refused.value).endswith("s; gandalf: drained by root: disk). Use --force to proceed")
        assert server.order() == ["frodo"]
        await server.say("drain", force=True)
        assert server.order() == ["bilbo"], "who isn't drained"
        event = [event for event in server.events.newest() if event.kind == "override"][-1]
        assert event.level == "warning"
        assert "drained by root (although frodo is the last usable member of pool web" in event.text
        with pytest.raises(LbdnsError, match="bilbo is the last member of pool web that is not drained"):
            await server.say("drain", "bilbo")
        await server.say("drain", "bilbo", force=True)
        assert server.order() == ["bilbo", "frodo", "gandalf"], "with nobody left all are handed out"


async def test_a_member_that_is_not_usable_can_be_drained(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        server.report(interval=0.001)
        await until(lambda: server.answerer.planner.failing_open["web"])
        await server.say("drain", "bilbo")
        await server.say("drain", "frodo")
        assert server.order() == ["gandalf"]
        await server.say("force", "gandalf", to="up")
        with pytest.raises(LbdnsError, match="last usable member of pool web"):
            await server.say("force", "gandalf", to="down")


async def test_the_only_member_of_a_pool(tmp_path: Path) -> None:
    async with desk(tmp_path, hobbit(pool(members=("frodo",)))) as server:
        with pytest.raises(LbdnsError, match=r"last usable member of pool web \(the pool has no other member\)"):
            await server.say("drain")


# Time


async def test_an_order_ends_by_itself(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        await server.say("drain", for_s=0.2, reason="quick")
        assert server.order() == ["bilbo", "gandalf"]
        await until(lambda: server.order() == ["bilbo", "frodo", "gandalf"])
        assert server.recorded()[-1] == (
            "pool web: frodo no longer drained: the override expired after 0s (set by root: quick)"
        )
        await until(lambda: json.loads(server.file.read_bytes()) == {"overrides": []})


async def test_a_clock_that_is_set_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(override_manager, "CHECK_PERIOD", 0.05)
    async with desk(tmp_path) as server:
        await server.say("drain", for_s=7200)
        await server.say("drain", "bilbo")
        server.ahead = 7201.0
        await until(lambda: server.order() == ["frodo", "gandalf"])
        assert server.recorded()[-1] == "pool web: frodo no longer drained: the override expired after 2h (set by root)"


async def test_overrides_that_expire_while_the_server_is_down_end_at_start(tmp_path: Path) -> None:
    now = time.time()
    over = Override("drain", "frodo.hobbit", by="root", since=now - 7300, until=now - 100)
    lasts = Override("drain", "bilbo.hobbit", by="root", since=now - 7300, until=now + 7200)
    override_file.write(tmp_path / "overrides.json", Overrides((over, lasts)))
    async with desk(tmp_path) as server:
        assert server.manager.overrides.items == (lasts,)
        assert server.order() == ["frodo", "gandalf"]
        assert server.recorded() == [
            "overrides still in force after the restart: frodo.hobbit drained by root; bilbo.hobbit drained by root",
            "pool web: frodo no longer drained: the override expired after 2h (set by root)",
        ]
    assert override_file.read(tmp_path / "overrides.json")[0].items == (lasts,)
