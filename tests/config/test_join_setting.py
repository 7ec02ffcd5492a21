"""Tests of [[pool]] join: who may join, and mistakes."""

from __future__ import annotations

import ipaddress

import pytest

from lbdns.config.join_setting import JoinConfig
from lbdns_shared.errors import ConfigError
from tests.config.config_files import ZONE, Load, pool_table


def join_of(load: Load, text: str) -> JoinConfig | None:
    return load(ZONE + pool_table(more=f"join = {text}" if text else "")).pools[0].join


def test_off_by_default(load: Load) -> None:
    assert join_of(load, "") is None


def test_all_keys(load: Load) -> None:
    found = join_of(
        load, '{ names = "Web-*", networks = ["10.0.0.0/8", "2001:db8::/32"], max = 200, leave_after = "10min" }'
    )
    networks = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("2001:db8::/32"))
    assert found == JoinConfig(("web-*",), networks, 200, 600.0)


def test_defaults(load: Load) -> None:
    found = join_of(load, '{ names = ["a-*", "b?"], networks = ["10.0.0.0/8"] }')
    assert found
    assert (found.names, found.max, found.leave_after) == (("a-*", "b?"), 100, 600.0)


@pytest.mark.parametrize(
    ("name", "permitted"),
    [
        ("web-1", True),
        ("web-", True),
        ("web", False),
        ("xweb-1", False),
        ("b1", True),
        ("b12", False),
        ("web-1.a", True),
    ],
)
def test_patterns(name: str, permitted: bool) -> None:
    assert JoinConfig(("web-*", "b?")).permits_name(name) is permitted


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{}", r"join\.names: is missing; write a pattern"),
        ('{ names = "web-*" }', r"join\.networks: is missing; list the networks"),
        ('{ names = "web-*", networks = ["10.0.0.1/8"] }', r"the network is 10\.0\.0\.0/8"),
        ('{ names = "we b", networks = ["10.0.0.0/8"] }', r"'we b' is not a pattern for host names"),
        ('{ names = "[a]", networks = ["10.0.0.0/8"] }', r"'\[a\]' is not a pattern for host names"),
        ('{ names = "web-*", networks = ["10.0.0.0/8"], max = 0 }', r"join\.max: must be a whole number from 1"),
        ('{ names = "web-*", networks = ["10.0.0.0/8"], leave_after = "0.5s" }', r"leave_after: must be at least 1s"),
        ('{ names = "web-*", networks = ["10.0.0.0/8"], leave_after = "soon" }', r"'soon' is not a valid duration"),
        ('{ names = "web-*", networks = ["10.0.0.0/8"], maxx = 1 }', r"maxx: unknown key\. Perhaps you meant 'max'"),
        ("true", r"join: must be a table"),
    ],
)
def test_mistakes(load: Load, text: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        join_of(load, text)


def test_a_pool_without_members_needs_join(load: Load) -> None:
    pool = '[[pool]]\nname = "web"\nzone = "hobbit"\n'
    with pytest.raises(ConfigError, match="members: is missing"):
        load(ZONE + pool)
    assert load(ZONE + pool + 'join = { names = "web-*", networks = ["10.0.0.0/8"] }\n').pools[0].members == ()


def test_weights_of_hosts_that_may_join(load: Load) -> None:
    join = 'join = { names = "web-*", networks = ["10.0.0.0/8"] }\n'
    found = load(ZONE + pool_table(more=join + "weights = { web-1 = 2.0 }")).pools[0]
    assert dict(found.weights) == {"web-1": 2.0}
    with pytest.raises(ConfigError, match="'wob-1' is not in members"):
        load(ZONE + pool_table(more=join + "weights = { wob-1 = 2.0 }"))
