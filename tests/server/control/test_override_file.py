"""Checks that overrides survive restarts, reloads and take-overs, even if the disk is slow, broken or missing."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest

from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.overrides import NO_OVERRIDES, Override, Overrides
from lbdns.model.shared_orders import SharedOrders
from lbdns.process.apply_configuration import apply
from lbdns.server.control import override_file, override_manager
from lbdns_shared.errors import LbdnsError
from tests.answering.farms import hobbit, pool
from tests.server.clients import until
from tests.server.control.desk import TWO_POOLS, Desk, desk, kept_in

# Restart, reload, take-over


async def test_everything_outlives_a_restart(tmp_path: Path) -> None:
    async with desk(tmp_path, TWO_POOLS) as server:
        await server.say("drain", reason="grün", for_s=9000.0)
        await server.say("force", "bilbo", to="up", pool="web")
        await server.say("weight", "gandalf", factor=0.25)
        before = server.manager.overrides
    async with desk(tmp_path, TWO_POOLS) as server:
        assert server.manager.overrides == before
        assert server.order("mail") == ["gandalf"]


async def test_a_reload_that_moves_the_folder_takes_them_along(tmp_path: Path) -> None:
    async with desk(tmp_path / "old") as server:
        await server.say("drain")
        await apply([server.manager], CheckedConfiguration(kept_in(tmp_path / "new", hobbit()), ()))
        await until((tmp_path / "new" / "overrides.json").exists)
        await until(lambda: not (tmp_path / "old" / "overrides.json").exists())
        assert override_file.read(tmp_path / "new" / "overrides.json")[0] == server.manager.overrides


async def test_overrides_outlive_their_member_and_can_be_ended(tmp_path: Path) -> None:
    async with desk(tmp_path, TWO_POOLS) as server:
        await server.say("drain", "bilbo")
        await server.say("drain", "gandalf", pool="mail")
        smaller = hobbit(pool(members=("frodo", "gandalf")))
        await apply([server.manager], CheckedConfiguration(kept_in(tmp_path, smaller), ()))
        assert [o["pools"] for o in (await server.say("overrides"))["in_force"]] == [[], []]
        with pytest.raises(LbdnsError, match="no pool has 'bilbo'"):
            await server.say("undrain", "bilbo")
        with pytest.raises(LbdnsError, match=r"no pool has 'bilbo\.hobbit'"):
            await server.say("drain", "bilbo.hobbit")
        assert [o["member"] for o in (await server.say("undrain", "Bilbo.hobbit"))["ended"]] == ["bilbo.hobbit"]
        assert server.recorded()[-1].startswith("bilbo.hobbit no longer drained: root ended the drain")
        await server.say("undrain", "gandalf.hobbit", pool="mail")
        assert server.manager.overrides == NO_OVERRIDES


async def test_inherited_overrides_are_written_once_the_predecessor_has_ended(tmp_path: Path) -> None:
    async with desk(tmp_path) as old:
        await old.say("drain")
        recorded = Overrides((*old.manager.overrides.items, Override("down", "bilbo.hobbit", until=1.0, since=0.0)))
    async with desk(tmp_path / "elsewhere") as new:
        new.answerer.override(recorded)
        new.manager.begin()
        assert new.order() == ["bilbo", "gandalf"], "what is over meanwhile has ended"
        await until(new.file.exists)
        assert override_file.read(new.file)[0] == old.manager.overrides


async def test_requests_wait_during_a_handover_and_are_not_lost(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        async with server.manager.handing_over:
            waiting = asyncio.create_task(server.say("drain"))
            refused = asyncio.create_task(server.say("drain", "bilbo"))
            done, _ = await asyncio.wait({waiting, refused}, timeout=0.05)
            assert not done
            refused.cancel()
        assert (await waiting)["in_force"]
        async with server.manager.handing_over:
            waiting = asyncio.create_task(server.say("undrain"))
            await server.manager.stop()
        with pytest.raises(LbdnsError, match="repeat the command"):
            await waiting
        assert len(override_file.read(server.file)[0].items) == 1


async def test_before_the_start_is_complete_orders_wait(tmp_path: Path) -> None:
    async with desk(tmp_path) as server:
        server.manager._begun.clear()
        waiting = asyncio.create_task(server.say("drain"))
        done, _ = await asyncio.wait({waiting}, timeout=0.05)
        assert not done, "by whom the file can be written is not settled yet"
        server.manager.begin()
        assert (await waiting)["kept"]
        server.manager._begun.clear()
        waiting = asyncio.create_task(server.say("undrain"))
        await asyncio.sleep(0)
        await server.manager.stop()
        with pytest.raises(LbdnsError, match="this server is stopping"):
            await waiting
    assert len(override_file.read(tmp_path / "overrides.json")[0].items) == 1


async def test_a_start_that_fails_writes_nothing(tmp_path: Path) -> None:
    """The override file still belongs to the old server, which continues to run."""
    server = Desk(kept_in(tmp_path, hobbit()))
    server.answerer.override(Overrides((Override("drain", "frodo.hobbit"),)))
    await server.close()
    await server.manager.stop()
    assert os.listdir(tmp_path) == []


# The disk


async def test_an_order_that_ends_what_could_not_be_written_is_kept_again(tmp_path: Path) -> None:
    """With the overrides that the disk still has in force again, nothing is lost at a restart: the reply says so."""
    folder = tmp_path / "state"
    folder.write_text("a file where the folder should be")
    async with desk(folder) as server:
        assert not (await server.say("drain"))["kept"]
        folder.unlink()
        answer = await server.say("undrain")
        assert (answer["kept"], answer["notes"]) == (True, [])
        assert server.recorded()[-1].endswith("overrides are saved again")


async def test_overrides_that_cannot_be_written_hold_and_the_reply_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(override_manager, "CHECK_PERIOD", 0.05)
    (tmp_path / "file").write_text("")
    async with desk(tmp_path / "file" / "state") as server:
        answer = await server.say("drain")
        assert server.order() == ["bilbo", "gandalf"]
        where = f"{tmp_path}/file/state/overrides.json: cannot write the file: Not a directory"
        assert (answer["kept"], answer["notes"]) == (
            False,
            [f"{where}; the override stays in force only until the server stops"],
        )
        assert (await server.say("overrides"))["notes"] == answer["notes"]
        await server.say("drain", "bilbo")
        assert server.recorded().count(f"{where}; overrides stay in force only until the server stops") == 1
        (tmp_path / "file").unlink()
        await until(server.file.exists)
        await until(lambda: server.recorded()[-1].endswith("overrides are saved again"))
        assert (await server.say("overrides"))["kept"]
        assert len(override_file.read(server.file)[0].items) == 2


async def test_a_slow_disk_delays_commands_only_briefly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, write = threading.Event(), override_file.write

    def slow(path: Path, overrides: Overrides, orders: SharedOrders) -> None:
        go_on.wait(10)
        write(path, overrides, orders)

    monkeypatch.setattr(override_file, "write", slow)
    monkeypatch.setattr(override_file, "PATIENCE", 0.05)
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
        assert server.manager.store.failure == ""


def test_shared_orders_are_kept_beside_the_overrides(tmp_path: Path) -> None:
    path = tmp_path / "overrides.json"
    drain = Override("drain", "frodo.hobbit", by="root", server="ns1")
    orders = SharedOrders().give(drain.place, drain, "root", "ns1").give(("weight", "frodo.hobbit", ""), None, "a", "b")
    override_file.write(path, Overrides((drain,)), orders)
    assert override_file.read(path) == (Overrides((drain,)), orders, "")
    override_file.write(path, NO_OVERRIDES)
    assert override_file.read(path) == (NO_OVERRIDES, SharedOrders(), "")
    document = {"overrides": [], "shared_orders": [orders.orders[drain.place].document(), {"version": 1}]}
    path.write_text(json.dumps(document))
    found, valid, trouble = override_file.read(path)
    assert (found, list(valid.orders)) == (NO_OVERRIDES, [drain.place])
    assert "1 of 2 shared orders are not valid; moved to" in trouble


@pytest.mark.parametrize(
    "content", ['{"overrides": [], "shared_orders": 5}', "{", "[]", '{"overrides": {}}', "\xff", "[" * 100_000]
)
async def test_a_broken_file_is_moved_aside(tmp_path: Path, content: str) -> None:
    (tmp_path / "overrides.json").write_bytes(content.encode("latin-1"))
    async with desk(tmp_path) as server:
        aside = tmp_path / "overrides.json.bad-1"
        assert server.recorded() == [f"{server.file}: not a valid override file; moved to {aside}"]
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
        assert "2 of 3 overrides are not valid; moved to" in server.recorded()[0]
        assert server.order() == ["bilbo", "gandalf"]
        await until(server.file.exists)
    assert len(override_file.read(tmp_path / "overrides.json")[0].items) == 1


async def test_an_unreadable_file_is_moved_aside(tmp_path: Path) -> None:
    (tmp_path / "overrides.json").mkdir()
    async with desk(tmp_path) as server:
        assert "cannot read the file: Is a directory; moved to" in server.recorded()[0]
        assert (await server.say("drain"))["kept"]


def test_an_inaccessible_folder_is_reported_and_delays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state folder belongs to another user, as /var/lib/lbdns does when an ordinary user runs the server."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        for name in ("read_bytes", "exists", "rename"):
            patched.setattr(Path, name, refuse)
        found, _, trouble = override_file.read(tmp_path / "overrides.json")
        assert found == NO_OVERRIDES
        assert "cannot read the file: Permission denied; the file could not be renamed: Permission denied" in trouble
        override_file.write(tmp_path / "overrides.json", NO_OVERRIDES)  # nothing to keep: no trouble
    assert list(tmp_path.iterdir()) == []
