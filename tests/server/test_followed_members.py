"""Tests of taking over the followed collector's joined members: only those of joinable pools, whatever fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lbdns.model.joined_members import JoinedMember, JoinedMembers
from lbdns.server import followed_members
from lbdns.server.followed_members import FollowedMembers
from lbdns_collector.joining.joined_file import joined_path, read_joined
from lbdns_shared.errors import LbdnsError
from tests.collector.collector_fixtures import until
from tests.collector.joining.joining_farms import joinable

WEB = JoinedMember("web", "web-1", ("127.0.0.1",))
OTHER = JoinedMember("mail", "mail-1", ("127.0.0.2",))


@pytest.mark.parametrize("error", [None, LbdnsError("a part refuses"), RuntimeError("a mistake")])
async def test_members_are_applied_and_kept_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    monkeypatch.setattr(followed_members, "RETRY", 0.01)
    farm = joinable(tmp_path)
    failures = [error] if error else []
    applied: list[JoinedMembers] = []

    async def apply(joined: JoinedMembers) -> None:
        if failures:
            raise failures.pop()
        applied.append(joined)

    members = FollowedMembers(lambda: farm, apply)
    members.start()
    members.receive(JoinedMembers((OTHER, WEB)))
    path = joined_path(farm.config)
    await until(path.exists)
    assert applied == [JoinedMembers((WEB,))]
    assert read_joined(path) == JoinedMembers((WEB,))
    await asyncio.wait_for(members.stop(), 60)


async def test_a_reload_lets_more_members_join(tmp_path: Path) -> None:
    before, after = joinable(tmp_path, join=""), joinable(tmp_path)
    farms = [before]
    applied: list[JoinedMembers] = []

    async def apply(joined: JoinedMembers) -> None:
        applied.append(joined)

    members = FollowedMembers(lambda: farms[-1], apply)
    members.apply_again()  # nothing has been received
    members.start()
    members.receive(JoinedMembers((WEB,)))
    await until(lambda: applied == [JoinedMembers(())])
    farms.append(after)
    members.apply_again()
    await until(lambda: applied == [JoinedMembers(()), JoinedMembers((WEB,))])
    await members.stop()
