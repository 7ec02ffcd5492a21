"""Orders about members: what they change, what is refused, when they end."""

from __future__ import annotations

import asyncio
import getpass
import json
import math
import os
import stat
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns.errors import LbdnsError
from lbdns.overrides import NO_OVERRIDES, Override, Overrides
from lbdns.server.orders import override_file, overriding
from tests.answering.farms import HOBBIT, hobbit, make_farm, pool
from tests.server.clients import until
from tests.server.orders.desk import Desk, desk, kept_in

TWO_POOLS = hobbit(pool(), pool("mail", members=("frodo", "gandalf"), names={"post": "round_robin"}))


async def test_a_drain_is_in_force_at_once_told_and_kept(tmp_path: Path) -> None:
    async with desk(tmp_path / "state") as server:
        answer = await server.say("drain", for_s=7200, reason="new kernel", uid=os.getuid())
        assert server.order() == ["bilbo", "gandalf"]
        (document,) = answer["in_force"]
        user = getpass.getuser()
        assert document["until"] - document["since"] == pytest.approx(7200)
        assert (document["kind"], document["member"], document["pools"]) == ("drain", "frodo.hobbit", ["web"])
        assert document["text"] == f"drained by {user}: new kernel"
        assert (answer["kept"], answer["ended"], answer["notes"]) == (True, [], [])
        assert server.told() == [f"pool web: frodo drained by {user} for 2h: new kernel"]
        (event,) = [event for event in server.events.newest() if event.kind == "override"]
        assert (event.pool, event.member, event.level) == ("web", "frodo", "info")
        assert json.loads(server.file.read_bytes())["overrides"][0]["by"] == user
        assert stat.S_IMODE(server.file.stat().st_mode) == 0o600
        assert [path.name for path in server.file.parent.iterdir()] == ["overrides.json"]
        answer = await server.say("undrain", reason="done", uid=os.getuid())
        assert server.order() == ["bilbo", "frodo", "gandalf"]
        assert (answer["in_force"], [o["kind"] for o in answer["ended"]]) == ([], ["drain"])
        assert server.told()[-1] == (
            f"pool web: frodo no longer drained, by {user}: done ({user} had ordered it: new kernel)"
        )
        assert json.loads(server.file.read_bytes()) == {"overrides": []}


async def test_who_ordered_it_is_named_though_nobody_knows_the_user(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        assert (await server.say("drain", uid=4_000_000_000 - 2**32))["in_force"][0]["by"] == "uid 4000000000"


async def test_who_never_orders_needs_no_file(tmp_path: Path) -> None:
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
        assert [o.kind for o in server.overriding.overrides.items] == ["down"], "one at a time"
        await server.say("weight", "bilbo", factor=3)
        assert server.alone.planner._choosers["web"].capacities()[0] == 3.0
        assert [o["kind"] for o in (await server.say("overrides"))["in_force"]] == ["down", "weight"]
        assert (await server.say("force", to="auto"))["in_force"] == []
        await server.say("weight", "bilbo", factor=1)
        assert server.overriding.overrides == NO_OVERRIDES
        user = "root"
        assert server.told() == [
            f"pool web: frodo forced up by {user}",
            f"pool web: frodo forced down by {user}: no",
            f"pool web: bilbo given weight 3 by {user}",
            f"pool web: frodo no longer forced down, by {user} ({user} had ordered it: no)",
            f"pool web: bilbo no longer of weight 3, by {user} ({user} had ordered it)",
        ]


async def test_drained_and_forced_up_is_noted(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        await server.say("drain")
        answer = await server.say("force", to="up")
        assert server.order() == ["bilbo", "gandalf"]
        assert answer["notes"] == ["frodo.hobbit is drained, which counts before being forced up or down"]
        await server.say("undrain")
        assert server.order() == ["bilbo", "frodo", "gandalf"]


# Pools


async def test_a_machine_in_several_pools_is_drained_in_all_or_in_one(tmp_path: Path) -> None:
    async with desk(tmp_path, TWO_POOLS) as server:
        await server.say("drain", pool="mail")
        assert (server.order(), server.order("mail")) == (["bilbo", "frodo", "gandalf"], ["gandalf"])
        with pytest.raises(LbdnsError, match=r"is not drained in pool web; in force: drained by root \(pool mail\)"):
            await server.say("undrain", pool="web")
        answer = await server.say("drain", "bilbo")
        assert answer["in_force"][0]["pools"] == ["web"]
        await server.say("undrain", "bilbo")
        answer = await server.say("drain", reason="both")
        assert (server.order(), server.order("mail")) == (["bilbo", "gandalf"], ["gandalf"])
        assert [(o.pool, o.reason) for o in server.overriding.overrides.items] == [("", "both")], "it says all"
        assert server.told()[-1] == "pools web, mail: frodo.hobbit drained by root: both"
        with pytest.raises(LbdnsError, match="is for every pool and can't be ended for pool web alone"):
            await server.say("undrain", pool="web")
        await server.say("weight", pool="mail", factor=2)
        await server.say("undrain")
        assert [o.kind for o in server.overriding.overrides.items] == ["weight"]
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
            assert str(refused.value).endswith("s; gandalf: drained by root: disk). --force does it all the same")
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


async def test_who_is_not_usable_can_be_drained(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        server.report(interval=0.001)
        await until(lambda: server.alone.planner.failing_open["web"])
        await server.say("drain", "bilbo")
        await server.say("drain", "frodo")
        assert server.order() == ["gandalf"]
        await server.say("force", "gandalf", to="up")
        with pytest.raises(LbdnsError, match="last usable member of pool web"):
            await server.say("force", "gandalf", to="down")


async def test_the_only_member_of_a_pool(tmp_path: Path) -> None:
    async with desk(tmp_path, hobbit(pool(members=("frodo",)))) as server:
        with pytest.raises(LbdnsError, match=r"last usable member of pool web \(it has no other\)"):
            await server.say("drain")


# Time


async def test_an_order_ends_by_itself(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        await server.say("drain", for_s=0.2, reason="quick")
        assert server.order() == ["bilbo", "gandalf"]
        await until(lambda: server.order() == ["bilbo", "frodo", "gandalf"])
        assert server.told()[-1] == ("pool web: frodo no longer drained: the 0s are over (root had ordered it: quick)")
        await until(lambda: json.loads(server.file.read_bytes()) == {"overrides": []})


async def test_a_clock_that_is_set_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overriding, "LOOK", 0.05)
    async with desk(tmp_path) as server:
        await server.say("drain", for_s=7200)
        await server.say("drain", "bilbo")
        server.ahead = 7201.0
        await until(lambda: server.order() == ["frodo", "gandalf"])
        assert server.told()[-1] == "pool web: frodo no longer drained: the 2h are over (root had ordered it)"


async def test_what_ends_while_nobody_serves_is_over_at_the_start(tmp_path: Path) -> None:
    now = time.time()
    over = Override("drain", "frodo.hobbit", by="root", since=now - 7300, until=now - 100)
    lasts = Override("drain", "bilbo.hobbit", by="root", since=now - 7300, until=now + 7200)
    override_file.write(tmp_path / "overrides.json", Overrides((over, lasts)))
    async with desk(tmp_path) as server:
        assert server.overriding.overrides.items == (lasts,)
        assert server.order() == ["frodo", "gandalf"]
        assert server.told() == [
            "in force from before: frodo.hobbit drained by root; bilbo.hobbit drained by root",
            "pool web: frodo no longer drained: the 2h are over (root had ordered it)",
        ]
    assert override_file.read(tmp_path / "overrides.json")[0].items == (lasts,)


# Restart, reload, take-over


async def test_everything_outlives_a_restart(tmp_path: Path) -> None:
    async with desk(tmp_path, TWO_POOLS) as server:
        await server.say("drain", reason="grün", for_s=9000.0)
        await server.say("force", "bilbo", to="up", pool="web")
        await server.say("weight", "gandalf", factor=0.25)
        before = server.overriding.overrides
    async with desk(tmp_path, TWO_POOLS) as server:
        assert server.overriding.overrides == before
        assert server.order("mail") == ["gandalf"]


async def test_a_reload_that_moves_the_folder_takes_them_along(tmp_path: Path) -> None:
    async with desk(tmp_path / "old") as server:
        await server.say("drain")
        server.overriding.use(kept_in(tmp_path / "new", hobbit()))
        await until((tmp_path / "new" / "overrides.json").exists)
        await until(lambda: not (tmp_path / "old" / "overrides.json").exists())
        assert override_file.read(tmp_path / "new" / "overrides.json")[0] == server.overriding.overrides


async def test_orders_for_what_is_no_longer_configured_are_kept_and_can_be_ended(tmp_path: Path) -> None:
    async with desk(tmp_path, TWO_POOLS) as server:
        await server.say("drain", "bilbo")
        await server.say("drain", "gandalf", pool="mail")
        server.overriding.use(kept_in(tmp_path, hobbit(pool(members=("frodo", "gandalf")))))
        assert [o["pools"] for o in (await server.say("overrides"))["in_force"]] == [[], []]
        with pytest.raises(LbdnsError, match="no pool has 'bilbo'"):
            await server.say("undrain", "bilbo")
        with pytest.raises(LbdnsError, match=r"no pool has 'bilbo\.hobbit'"):
            await server.say("drain", "bilbo.hobbit")
        assert [o["member"] for o in (await server.say("undrain", "Bilbo.hobbit"))["ended"]] == ["bilbo.hobbit"]
        assert server.told()[-1].startswith("bilbo.hobbit no longer drained, by root")
        await server.say("undrain", "gandalf.hobbit", pool="mail")
        assert server.overriding.overrides == NO_OVERRIDES


async def test_what_a_predecessor_says_is_kept_from_its_end_on(tmp_path: Path) -> None:
    async with desk(tmp_path) as old:
        await old.say("drain")
        told = Overrides((*old.overriding.overrides.items, Override("down", "bilbo.hobbit", until=1.0, since=0.0)))
    async with desk(tmp_path / "elsewhere") as new:
        new.overriding.inherit(told)
        new.overriding.begin()
        assert new.order() == ["bilbo", "gandalf"], "what is over meanwhile has ended"
        await until(new.file.exists)
        assert override_file.read(new.file)[0] == old.overriding.overrides


async def test_while_a_successor_is_told_orders_wait_and_then_are_not_lost(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        async with server.overriding.handing_over:
            waiting = asyncio.create_task(server.say("drain"))
            refused = asyncio.create_task(server.say("drain", "bilbo"))
            done, _ = await asyncio.wait({waiting, refused}, timeout=0.05)
            assert not done
            refused.cancel()
        assert (await waiting)["in_force"]
        async with server.overriding.handing_over:
            waiting = asyncio.create_task(server.say("undrain"))
            await server.overriding.stop()
        with pytest.raises(LbdnsError, match="give the order again"):
            await waiting
        assert len(override_file.read(server.file)[0].items) == 1


# The disk


async def test_what_can_not_be_kept_holds_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overriding, "LOOK", 0.05)
    (tmp_path / "file").write_text("")
    async with desk(tmp_path / "file" / "state") as server:
        answer = await server.say("drain")
        assert server.order() == ["bilbo", "gandalf"]
        where = f"{tmp_path}/file/state/overrides.json: can't be written: Not a directory"
        assert (answer["kept"], answer["notes"]) == (False, [f"{where}; it holds until the server stops"])
        assert (await server.say("overrides"))["notes"] == answer["notes"]
        await server.say("drain", "bilbo")
        assert server.told().count(f"{where}; overrides hold until the server stops") == 1
        (tmp_path / "file").unlink()
        await until(server.file.exists)
        await until(lambda: server.told()[-1].endswith("overrides are kept over restarts again"))
        assert (await server.say("overrides"))["kept"]
        assert len(override_file.read(server.file)[0].items) == 2


async def test_a_slow_disk_holds_nobody_up_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, write = threading.Event(), override_file.write

    def slow(path: Path, overrides: Overrides) -> None:
        go_on.wait(10)
        write(path, overrides)

    monkeypatch.setattr(override_file, "write", slow)
    monkeypatch.setattr(overriding, "PATIENCE", 0.05)
    async with desk(tmp_path) as server:
        try:
            answer = await server.say("drain")
            assert not answer["kept"]
            assert "the disk is slow" in answer["notes"][0]
            assert server.order() == ["bilbo", "gandalf"]
            await server.say("drain", "bilbo")
        finally:
            go_on.set()
        await until(lambda: len(override_file.read(server.file)[0].items) == 2)
        assert server.overriding._trouble == ""


@pytest.mark.parametrize("content", ["{", "[]", '{"overrides": {}}', "\xff", "[" * 100_000])
async def test_a_broken_file_is_moved_aside(tmp_path: Path, content: str) -> None:
    (tmp_path / "overrides.json").write_bytes(content.encode("latin-1"))
    async with desk(tmp_path) as server:
        aside = tmp_path / "overrides.json.bad-1"
        assert server.told() == [f"{server.file}: holds no overrides; moved to {aside}"]
        assert next(e for e in server.events.newest() if e.kind == "override").level == "warning"
        assert aside.read_bytes() == content.encode("latin-1")
        await server.say("drain")
        server.file.write_text("broken again")
    (tmp_path / "overrides.json").write_text("x")
    async with desk(tmp_path):
        assert (tmp_path / "overrides.json.bad-2").read_text() == "x"


async def test_of_a_file_with_one_bad_entry_the_others_hold(tmp_path: Path) -> None:
    good = Override("drain", "frodo.hobbit", by="root").document()
    (tmp_path / "overrides.json").write_text(json.dumps({"overrides": [good, {**good, "kind": "dance"}, 5]}))
    async with desk(tmp_path) as server:
        assert "2 of 3 overrides can't be understood; moved to" in server.told()[0]
        assert server.order() == ["bilbo", "gandalf"]
        await until(server.file.exists)
    assert len(override_file.read(tmp_path / "overrides.json")[0].items) == 1


async def test_a_file_that_can_not_be_read_is_moved_aside(tmp_path: Path) -> None:
    (tmp_path / "overrides.json").mkdir()
    async with desk(tmp_path) as server:
        assert "can't be read: Is a directory; moved to" in server.told()[0]
        assert (await server.say("drain"))["kept"]


def test_a_folder_that_can_not_be_entered_is_told_and_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's, as /var/lib/lbdns is for who just tries the server."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        for name in ("read_bytes", "exists", "rename"):
            patched.setattr(Path, name, refuse)
        found, trouble = override_file.read(tmp_path / "overrides.json")
        assert found == NO_OVERRIDES
        assert "can't be read: Permission denied; it can't be moved aside either: Permission denied" in trouble
        override_file.write(tmp_path / "overrides.json", NO_OVERRIDES)  # nothing to keep: no trouble
    assert list(tmp_path.iterdir()) == []


# Words


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("drain", {"member": ""}, "drain: member: is missing"),
        ("drain", {"member": 5}, "drain: member: is no text"),
        ("drain", {"member": "x" * 256}, "at most 255 characters"),
        ("drain", {"member": "frod"}, "no pool has 'frod'. Perhaps you meant 'frodo'?"),
        ("drain", {"member": "sauron"}, "no pool has 'sauron'; known: bilbo, frodo, gandalf"),
        ("drain", {"member": "frodo.hobbitt"}, "Perhaps you meant 'frodo.hobbit'?"),
        ("drain", {"pool": "wep"}, "there is no 'wep'. Perhaps you meant 'web'?"),
        ("drain", {"reason": "x" * 201}, "drain: reason: at most 200 characters"),
        ("drain", {"reason": "a\nb"}, "all of them printable"),
        ("drain", {"reason": "a\udcffb"}, "all of them printable"),
        ("drain", {"for_s": 0}, "drain: for_s: seconds, more than 0"),
        ("drain", {"for_s": math.nan}, "drain: for_s"),
        ("drain", {"for_s": "2h"}, "drain: for_s"),
        ("drain", {"force": 1}, "drain: force: is true or false"),
        ("drain", {"reasn": "x"}, "drain: there is no 'reasn'. Perhaps you meant 'reason'?"),
        ("undrain", {"for_s": 5}, "undrain: there is no 'for_s'"),
        ("undrain", {}, "frodo.hobbit is not drained; in force: nothing"),
        ("force", {}, "force: to: 'None' is none of up, down, auto"),
        ("force", {"to": "sideways"}, "is none of up, down, auto"),
        ("force", {"to": "auto", "for_s": 5}, "force: for_s: this ends an order"),
        ("force", {"to": "auto"}, "frodo.hobbit is not forced up or down; in force: nothing"),
        ("weight", {}, "weight: factor: 'None' is no number from 0.01 to 100"),
        ("weight", {"factor": True}, "is no number"),
        ("weight", {"factor": 0.001}, "is no number"),
        ("weight", {"factor": 1}, "frodo.hobbit is of no other weight than 1; in force: nothing"),
    ],
)
async def test_bad_words(tmp_path: Path, command: str, words: dict[str, object], said: str) -> None:
    async with desk(tmp_path) as server:
        with pytest.raises(LbdnsError) as refused:
            await server.say(command, **{"member": "frodo", **words})  # type: ignore[arg-type]
        assert said in str(refused.value)
        assert server.overriding.overrides == NO_OVERRIDES
        assert server.told() == []


@pytest.mark.parametrize("name", ["frodo", "FRODO", "frodo.hobbit", "Frodo.Hobbit."])
async def test_ways_to_name_a_member(tmp_path: Path, name: str) -> None:
    async with desk(tmp_path) as server:
        assert (await server.say("drain", name))["members"] == ["frodo.hobbit"]


async def test_there_is_an_end_to_what_can_be_ordered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overriding, "MAX_OVERRIDES", 1)
    async with desk(tmp_path) as server:
        await server.say("drain")
        await server.say("drain", reason="in its place")
        with pytest.raises(LbdnsError, match="there are 1 overrides; end some of them first"):
            await server.say("drain", "bilbo")


async def test_one_name_in_two_zones(tmp_path: Path) -> None:
    pools = [pool("web"), pool("shire", zone="shire", names={"shire": "round_robin"})]
    same = make_farm({"hobbit": HOBBIT, "shire": HOBBIT}, pools)
    async with desk(tmp_path / "same", same) as server:
        answer = await server.say("drain")
        assert answer["members"] == ["frodo.hobbit", "frodo.shire"], "one machine under two names"
        assert server.order() == server.order("shire") == ["bilbo", "gandalf"]
        await server.say("undrain", "frodo.shire")
        assert (server.order(), server.order("shire")) == (["bilbo", "gandalf"], ["bilbo", "frodo", "gandalf"])
    other = make_farm({"hobbit": HOBBIT, "shire": HOBBIT.replace("127.0.0.17", "127.0.0.27")}, pools)
    async with desk(tmp_path / "other", other) as server:
        with pytest.raises(LbdnsError, match=r"another machine in each zone: frodo\.hobbit, frodo\.shire; name it in"):
            await server.say("drain")
        assert (await server.say("drain", pool="shire"))["members"] == ["frodo.shire"]
        assert replace(server.overriding.overrides.items[0], since=0.0) == Override(
            "drain", "frodo.shire", "shire", by="root"
        )


async def test_before_the_start_is_complete_orders_wait(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        server.overriding._begun.clear()
        waiting = asyncio.create_task(server.say("drain"))
        done, _ = await asyncio.wait({waiting}, timeout=0.05)
        assert not done, "by whom the file can be written is not settled yet"
        server.overriding.begin()
        assert (await waiting)["kept"]
        server.overriding._begun.clear()
        waiting = asyncio.create_task(server.say("undrain"))
        await asyncio.sleep(0)
        await server.overriding.stop()
        with pytest.raises(LbdnsError, match="this server is ending"):
            await waiting
    assert len(override_file.read(tmp_path / "overrides.json")[0].items) == 1


async def test_a_start_that_fails_writes_nothing(tmp_path: Path) -> None:
    """It is still the file of the server whose place it did not take."""
    server = Desk(kept_in(tmp_path, hobbit()))
    server.overriding.inherit(Overrides((Override("drain", "frodo.hobbit"),)))
    await server.close()
    await server.overriding.stop()
    assert os.listdir(tmp_path) == []
