"""Tests of access control: networks, credentials, and limits on guesses."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest

from lbdns_collector.web import access_control as readers_module
from lbdns_collector.web.access_control import AT_ONCE, REFUSAL_REASONS, AccessControl, is_this_machine
from lbdns_collector.web.refusal_log import QUIET

ALLOW = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32")))


@pytest.mark.parametrize(
    ("address", "may"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("192.0.2.7", True),
        ("192.0.2.8", False),
        ("::ffff:192.0.2.8", False),
        ("11.0.0.1", False),
        ("2001:db8:1::1", True),
        ("2001:db9::1", False),
        ("fe80::1%eth0", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_networks(address: str, may: bool) -> None:
    assert AccessControl(ALLOW).is_allowed(address) == may


def test_without_networks_the_loopback_alone() -> None:
    assert [AccessControl().is_allowed(address) for address in ("127.0.0.1", "::1", "10.0.0.1")] == [True, True, False]


@pytest.mark.parametrize(
    ("peer", "own", "is_local"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.8.9.10", "127.0.0.1", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.2", "10.0.0.1", False),
        ("", "10.0.0.1", False),
    ],
)
def test_this_machine(peer: str, own: str, is_local: bool) -> None:
    assert is_this_machine(peer, own) == is_local


def test_refusals_are_counted_and_seldom_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1000.0
    monkeypatch.setattr("lbdns_collector.web.refusal_log.time.monotonic", lambda: now)
    readers = AccessControl()
    for refusal in REFUSAL_REASONS:
        readers.refuse(refusal, "192.0.2.1")
    assert "refused: 192.0.2.1 is not in a network listed in [web] allow" in caplog.messages
    caplog.clear()
    for number in range(1000):
        for refusal in REFUSAL_REASONS:
            readers.refuse(refusal, "192.0.2.2", f"number {number}")
    assert not caplog.messages
    now += QUIET
    readers.refuse("credentials", "192.0.2.3")
    assert set(readers.refused.values()) == {1001, 1002}
    assert caplog.messages == [
        "refused: 192.0.2.3 sent a wrong password or token; 1000 others were refused since the last log line"
    ]


async def test_tries_from_one_place_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers_module, "DELAY", 20.0)
    readers = AccessControl()

    async def wrong(address: str) -> None:
        async with readers.delayed_refusal(address):
            pass

    waiting = [asyncio.create_task(wrong(f"2001:db8::{number}")) for number in range(AT_ONCE)]
    await asyncio.sleep(0)
    assert not readers.may_try("2001:db8::ffff:1"), "a customer's network is one place"
    assert readers.may_try("2001:db8:0:1::1")
    assert readers.may_try("192.0.2.1")
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert readers.may_try("2001:db8::ffff:1")
