from __future__ import annotations

import socket

import pytest

from lbdns_agent.agent_options import default_name, parse_gateway, parse_interval, parse_name
from lbdns_agent.gateway.default_route import Gateway


@pytest.mark.parametrize(("text", "interval"), [("0.1", 0.1), ("1", 1.0), ("3600", 3600.0), ("2.5", 2.5)])
def test_interval(text: str, interval: float) -> None:
    assert parse_interval(text) == interval


@pytest.mark.parametrize("text", ["0", "0.09", "-1", "3601", "nan", "inf", "", "1s"])
def test_intervals_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"from 0\.1 to 3600"):
        parse_interval(text)


@pytest.mark.parametrize(
    ("text", "gateway"),
    [
        ("auto", "auto"),
        ("off", None),
        ("192.0.2.1", Gateway("192.0.2.1")),
        ("2001:DB8::1", Gateway("2001:db8::1")),
        ("fe80::1%eth0", Gateway("fe80::1", "eth0")),
    ],
)
def test_gateway(text: str, gateway: Gateway | str | None) -> None:
    assert parse_gateway(text) == gateway


@pytest.mark.parametrize("text", ["", "router", "192.0.2", "192.0.2.1:80"])
def test_gateways_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be 'auto', 'off' or an address"):
        parse_gateway(text)


@pytest.mark.parametrize(
    ("text", "name"), [("Gandalf", "gandalf"), ("gandalf.hobbit.", "gandalf.hobbit"), ("web_1-a", "web_1-a")]
)
def test_name(text: str, name: str) -> None:
    assert parse_name(text) == name


@pytest.mark.parametrize("text", ["", "a b", "-x", "m\u00fcller", "a..b", "x" * 64, ".".join(["abcdefg"] * 40)])
def test_names_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host name"):
        parse_name(text)


def test_the_default_name_is_short_and_in_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Gandalf.Hobbit.Example")
    assert default_name() == "gandalf"
