"""Tests of [[pool]] backup: which pools may be backups, and mistakes."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns.config import CollectorConfig, PoolConfig
from lbdns.config.join_setting import JoinConfig
from lbdns.model.joined_members import JoinedMember, JoinedMembers, with_joined
from lbdns_shared.errors import ConfigError
from tests.answering.farms import HOBBIT, make_farm, pool
from tests.config.config_files import ZONE, Load, pool_table

SPARE = 'names = { spare = "best" }\n'


def test_a_pool_may_have_a_backup(load: Load) -> None:
    text = ZONE + pool_table(more='backup = "spare"') + pool_table("frodo", name="spare", more=SPARE)
    assert [found.backup for found in load(text).pools] == ["spare", ""]


@pytest.mark.parametrize(
    ("backup", "of_spare", "error"),
    [
        ("spar", "", r"backup: there is no \[\[pool\]\] 'spar'.*'spare'"),
        ("web", "", r"backup: 'web' is this pool itself; name another pool in the same zone"),
        ("spare", "web", r"backup: pool 'spare' has a backup itself \('web'\), and chains are not supported"),
    ],
)
def test_mistakes(load: Load, backup: str, of_spare: str, error: str) -> None:
    more = SPARE + (f'backup = "{of_spare}"' if of_spare else "")
    with pytest.raises(ConfigError, match=error):
        load(ZONE + pool_table(more=f'backup = "{backup}"') + pool_table("frodo", name="spare", more=more))


@pytest.mark.parametrize(
    ("spare", "error"),
    [
        (
            pool("spare", members=("bilbo", "frodo"), names={"s": "best"}),
            r"backup: bilbo.hobbit is a member of both pools",
        ),
        (
            pool("spare", "shire", members=("sam",), names={"s": "best"}),
            r"backup: pool spare is in zone shire, but a backup",
        ),
    ],
)
def test_pools_that_do_not_fit(spare: PoolConfig, error: str) -> None:
    shire = "@ SOA ns hostmaster 7 1h 15m 1w 5m\n@ NS ns\nns A 127.0.0.1\nsam A 127.0.0.2\n"
    web = pool(members=("bilbo",), backup="spare")
    with pytest.raises(ConfigError, match=error):
        make_farm({"hobbit": HOBBIT, "shire": "$TTL 1h\n" + shire}, [web, spare])


def test_hosts_that_join_the_backup_are_selectable() -> None:
    join = JoinConfig(("web-*",), (ipaddress.ip_network("10.0.0.0/8"),))
    spare = replace(pool("spare", members=("frodo",), names={"s": "best"}), join=join)
    collector = CollectorConfig(key_file=Path("report.key"))
    farm = make_farm({"hobbit": HOBBIT}, [pool(members=("bilbo",), backup="spare"), spare], collector)
    joined, refused = with_joined(farm, JoinedMembers((JoinedMember("spare", "web-1", ("10.0.0.7",)),)))
    assert refused == []
    assert [member.name for member in joined.pools[0].selectable] == ["bilbo", "frodo", "web-1"]
