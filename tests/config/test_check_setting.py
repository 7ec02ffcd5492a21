"""Tests of [[pool]] check: its targets, its table form, and mistakes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.config.check_setting import NO_CHECK, CheckConfig, CheckTarget, parse_target
from lbdns_shared.errors import ConfigError
from tests.config.config_files import ZONE, Load, pool_table


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("off", None),
        ("icmp", CheckTarget("icmp", "icmp")),
        ("tcp:80", CheckTarget("tcp:80", "tcp", 80)),
        ("http://:8080/ok?x=1", CheckTarget("http://:8080/ok?x=1", "http", 8080, "", "/ok?x=1")),
        ("http://www.example.net/", CheckTarget("http://www.example.net/", "http", 80, "www.example.net", "/")),
        ("http://:81", CheckTarget("http://:81", "http", 81, "", "/")),
    ],
)
def test_targets(text: str, target: CheckTarget | None) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    "text",
    [
        "", "tcp", "tcp:", "tcp:0", "tcp:65536", "tcp:http", "tcp:80 ", "tcp:80\n", "tcp:\u0668\u0660", "udp:53",
        "ping", "http://:80/a b", "http://:80/#a", "http://[::1]:80/", "http://a:b@c/", "http://:80/\r\nHost: x", "http://:80/\n",
        "https://:443/",
    ],
)  # fmt: skip
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(ValueError, match=r"write, for example|must be from 1"):
        parse_target(text)


@given(st.text())
def test_any_text_is_a_target_or_an_error(text: str) -> None:
    try:
        target = parse_target(text)
    except ValueError:
        return
    assert target is None or (str(target) == text and "\n" not in target.host + target.path)


def check_of(load: Load, more: str) -> CheckConfig:
    return load(ZONE + pool_table(more=more)).pools[0].check


def test_the_default_is_off(load: Load) -> None:
    assert check_of(load, "") == check_of(load, 'check = "off"') == NO_CHECK


def test_a_string_is_the_target(load: Load) -> None:
    found = check_of(load, 'check = "tcp:80"')
    assert found == CheckConfig(CheckTarget("tcp:80", "tcp", 80))
    assert (found.interval, found.timeout, found.up, found.down) == (1.0, 0.3, 2, 2)
    assert found.status == ((200, 399),)


def test_a_table_has_the_target_and_more(load: Load) -> None:
    found = check_of(
        load,
        'check = { target = "http://:80/", status = [204, "300-302"], interval = 5, timeout = 1.5, up = 3, down = 4 }',
    )
    assert (found.interval, found.timeout, found.up, found.down) == (5.0, 1.5, 3, 4)
    assert found.status == ((204, 204), (300, 302))
    assert check_of(load, 'check = { target = "http://:80/", status = 200 }').status == ((200, 200),)


def test_members_without_an_agent_and_weights(load: Load) -> None:
    more = 'check = "icmp"\nagentless = ["Frodo"]\nweights = { gandalf = 2, FRODO = 0.5 }'
    pool = load(ZONE + pool_table("gandalf", "frodo", more=more)).pools[0]
    assert pool.agentless == ("frodo",)
    assert dict(pool.weights) == {"gandalf": 2.0, "frodo": 0.5}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('agentless = ["gandalf"]', ":8: [pool web] agentless: members without an agent need a check; add, for"),
        ('agentless = ["gandalf"]\ncheck = "off"', "agentless: members without an agent need a check"),
        ('check = "icmp"\nagentless = ["gandlf"]', "agentless: 'gandlf' is not in members. Perhaps you meant"),
        ('check = "icmp"\nagentless = 5', "agentless: must be a list of strings, not 5"),
        ("weights = { gandlf = 2 }", "weights: 'gandlf' is not in members. Perhaps you meant 'gandalf'?"),
        ("weights = { gandalf = 0 }", "weights.gandalf: must be a number from 0.01 to 100, not 0"),
        ('weights = { gandalf = "2" }', "weights.gandalf: must be a number from 0.01 to 100, not '2'"),
        ("weights = { gandalf = 2, Gandalf = 3 }", "weights: a name appears twice"),
        ('check = "tcp"', ":8: [pool web] check: 'tcp' is not a valid check; write, for example, 'tcp:80'"),
        ("check = 80", ":8: [pool web] check: must be a string, not 80"),
        ("check = { }", ":8: [pool web] check.target: is missing"),
        ("check = { target = 80 }", ":8: [pool web] check.target: must be a string, not 80"),
        ('check = { target = "tcp:0" }', ":8: [pool web] check.target: 'tcp:0': the port must be from 1 to 65535"),
        ('check = { target = "https://x/" }', "HTTPS cannot be checked; write, for example, 'tcp:443'"),
        ('check = { target = "icmp", interval = 0 }', "check.interval: must be a number from 0.1 to 3600, not 0"),
        ('check = { target = "icmp", timout = 1 }', "check.timout: unknown key. Perhaps you meant 'timeout'?"),
        ('check = { target = "icmp", status = 200 }', "check.status: applies only to HTTP checks, not to icmp"),
        ('check = { target = "http://:80/", status = 99 }', "check.status: 99 is not a status code"),
        ('check = { target = "http://:80/", status = "300-200" }', "'300-200' is not a status code"),
        ('check = { target = "http://:80/", status = [] }', "check.status: is empty"),
    ],
)
def test_mistakes(load: Load, more: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(ZONE + pool_table(more=more))
    assert message in str(caught.value)
    assert len(caught.value.findings) == 1
