"""Tests of the overrides of a followed collector: they come into force here, beside this server's own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.model.overrides import KINDS, Override, Overrides, merge_overrides, read_override
from lbdns.server.control.override_file import FILE_NAME
from lbdns_shared.errors import LbdnsError
from tests.answering.farms import hobbit
from tests.server.control.desk import Desk, desk

URL = "http://192.0.2.53:8053"
DRAIN = Override("drain", "frodo.hobbit", by="root", reason="kernel", since=1000.0, origin=URL)


def texts(stage: Desk) -> list[str]:
    return [event.text for event in stage.events.newest() if event.kind == "override"]


async def test_they_come_and_go(tmp_path: Path) -> None:
    async with desk(tmp_path) as stage:
        stage.report()
        stage.manager.follow([DRAIN])
        assert "frodo" not in stage.order()
        assert texts(stage)[-1] == f"pool web: frodo drained by root at {URL}: kernel"
        stage.manager.follow([DRAIN])
        assert len(texts(stage)) == 1, "nothing has changed"
        stage.manager.follow([])
        assert "frodo" in stage.order()
        assert texts(stage)[-1] == f"pool web: frodo no longer drained, at {URL} (set by root: kernel)"


async def test_an_own_override_takes_precedence_and_ends_alone(tmp_path: Path) -> None:
    async with desk(tmp_path) as stage:
        stage.report()
        heavy = replace(DRAIN, kind="weight", factor=3.0)
        stage.manager.follow([heavy])
        await stage.say("weight", factor=0.5)
        assert [(each.factor, each.origin) for each in stage.manager.overrides.items] == [(0.5, "")]
        stage.manager.follow([replace(heavy, factor=4.0)])
        assert [(each.factor, each.origin) for each in stage.manager.overrides.items] == [(0.5, "")]


async def test_the_collector_s_override_returns_when_the_own_one_ends(tmp_path: Path) -> None:
    async with desk(tmp_path) as stage:
        stage.report()
        stage.manager.follow([DRAIN])
        await stage.say("drain", reason="mine")
        assert [each.origin for each in stage.manager.overrides.items] == [""]
        await stage.say("undrain")
        assert [each.origin for each in stage.manager.overrides.items] == [URL]
        assert "frodo" not in stage.order()


async def test_the_collector_s_override_returns_when_the_own_one_expires(tmp_path: Path) -> None:
    async with desk(tmp_path) as stage:
        stage.report()
        stage.manager.follow([DRAIN])
        await stage.say("drain", reason="mine", for_s=100)
        stage.ahead = 101
        stage.manager._check()
        assert [each.origin for each in stage.manager.overrides.items] == [URL]
        assert "frodo" not in stage.order()


async def test_it_cannot_be_ended_here(tmp_path: Path) -> None:
    async with desk(tmp_path) as stage:
        stage.report()
        stage.manager.follow([DRAIN])
        with pytest.raises(
            LbdnsError, match=rf"frodo.hobbit is drained by root at {URL}: kernel; end this override on"
        ):
            await stage.say("undrain")
        assert "frodo" not in stage.order()


async def test_it_expires_without_the_collector(tmp_path: Path) -> None:
    async with desk(tmp_path) as stage:
        stage.report()
        now = stage.manager._clock()
        stage.manager.follow([replace(DRAIN, since=now, until=now + 100)])
        assert "frodo" not in stage.order()
        stage.ahead = 101
        stage.manager._check()
        assert "frodo" in stage.order()
        stage.manager.follow([replace(DRAIN, since=now, until=now + 100)])
        assert "frodo" in stage.order(), "the collector's clock is behind"


async def test_the_file_keeps_the_last_ones(tmp_path: Path) -> None:
    async with desk(tmp_path) as stage:
        stage.manager.follow([DRAIN])
        assert not await stage.manager.store.save(stage.manager.overrides)
    document = json.loads((tmp_path / FILE_NAME).read_text())
    assert [each["origin"] for each in document["overrides"]] == [URL]
    async with desk(tmp_path) as again:
        assert again.manager.overrides.items == (), "this server no longer follows a collector"


def test_older_files_have_no_origin() -> None:
    document = DRAIN.document()
    del document["origin"]
    assert read_override(document) == replace(DRAIN, origin="")
    assert read_override(DRAIN.document()) == DRAIN


_OVERRIDES = st.builds(
    Override,
    kind=st.sampled_from(KINDS),
    member=st.sampled_from(["a.z", "b.z"]),
    pool=st.sampled_from(["", "web", "mail"]),
    origin=st.sampled_from(["", URL]),
)


@given(st.lists(_OVERRIDES, unique_by=lambda each: (each.place, each.origin)))
def test_no_override_of_the_collector_replaces_an_own_one(found: list[Override]) -> None:
    overrides = Overrides(tuple(found))
    merged = merge_overrides(overrides.own, overrides.followed)
    assert merged.own == overrides.own
    assert len({each.place for each in merged.items}) == len(merged.items)
    for own in overrides.own:
        for pool in (own.pool,) if own.pool else ("web", "mail"):
            in_force = {each.slot: each for each in merged.of(pool, own.member)}[own.slot]
            assert not in_force.origin, "the own override is the one in force"


def test_farm_has_the_member() -> None:
    assert any(member.full_name == DRAIN.member for member in hobbit().pools[0].members)
