"""Tests of response rate limiting: which responses are counted together and limited, and when counts restart."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering import rate_limiter
from lbdns.answering.rate_limiter import RateLimiter
from lbdns.config import RateLimitConfig

HOST = "192.0.2.1"


def limiter(
    per_second: int = 3, slip: int = 2, share: int = 1, ipv4_prefix: int = 24, ipv6_prefix: int = 56
) -> RateLimiter:
    made = RateLimiter(RateLimitConfig(per_second, slip, ipv4_prefix, ipv6_prefix), share)
    made.tick(100.0)
    return made


def counts(made: RateLimiter, host: str = HOST, kind: bytes = b"a", times: int = 1) -> list[int]:
    return [made.count(host, kind) for _ in range(times)]


def test_so_many_are_within_the_limit_and_the_others_are_counted() -> None:
    assert counts(limiter(), times=6) == [0, 0, 0, 1, 2, 3]


def test_0_is_no_limit() -> None:
    assert counts(limiter(0), times=100) == [0] * 100


@pytest.mark.parametrize(("per_second", "share", "each"), [(1000, 4, 250), (10, 3, 4), (1, 8, 1), (0, 4, None)])
def test_processes_share_a_limit(per_second: int, share: int, each: int | None) -> None:
    over = counts(limiter(per_second, share=share), times=300)
    assert over.count(0) == (each if each is not None else 300)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("192.0.2.1", "192.0.2.255", True),
        ("192.0.2.1", "192.0.3.1", False),
        ("2001:db8:0:ff::1", "2001:db8:0:1::2", True),
        ("2001:db8:0:ff::1", "2001:db8:0:100::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("0.0.0.1", "::1:0", False),
    ],
)
def test_a_network_is_a_24_or_a_56(one: str, other: str, together: bool) -> None:
    made = limiter()
    counts(made, one, times=3)
    assert bool(made.count(other, b"a")) is together


@pytest.mark.parametrize(("prefix", "together"), [(32, False), (31, True), (1, True)])
def test_prefixes_of_ipv4_can_be_set(prefix: int, together: bool) -> None:
    made = limiter(ipv4_prefix=prefix)
    counts(made, "192.0.2.2", times=3)
    assert bool(made.count("192.0.2.3", b"a")) is together


@pytest.mark.parametrize(("prefix", "together"), [(128, False), (127, True), (1, True)])
def test_prefixes_of_ipv6_can_be_set(prefix: int, together: bool) -> None:
    made = limiter(ipv6_prefix=prefix)
    counts(made, "2001:db8::2", times=3)
    assert bool(made.count("2001:db8::3", b"a")) is together


def test_all_kinds_together_have_a_limit_too() -> None:
    made = limiter(3)
    found = [made.count(HOST, b"%d" % number) for number in range(20)]
    assert found == [0] * 15 + [1, 2, 3, 4, 5]
    assert made.count("198.51.100.1", b"0") == 0
    made.tick(101.0)
    assert made.count(HOST, b"0") == 0


def test_kinds_are_counted_apart() -> None:
    made = limiter()
    for kind in (b"a", b"b", b"hobbit 0", b"hobbit 3"):
        assert counts(made, kind=kind, times=4) == [0, 0, 0, 1]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.255.0.9", "::1"])
def test_the_loopback_is_exempt(host: str) -> None:
    assert counts(limiter(1), host, times=50) == [0] * 50


def test_other_networks_can_be_exempt_instead() -> None:
    exempt = (ipaddress.ip_network("192.0.2.0/25"), ipaddress.ip_network("2001:db8::/32"))
    made = RateLimiter(RateLimitConfig(1, exempt=exempt))
    made.tick(0.0)
    for host in ("192.0.2.127", "2001:db8:ffff::1"):
        assert counts(made, host, times=5) == [0] * 5
    for host in ("192.0.2.128", "2001:db9::", "127.0.0.1"):
        assert counts(made, host, times=2) == [0, 1]


def test_every_second_everybody_begins_anew() -> None:
    made = limiter()
    counts(made, times=5)
    for now, over in [
        (100.5, 3),
        (100.999, 4),
        (101.0, 0),
        (101.1, 0),
        (101.9, 0),
        (101.99, 1),
        (102.0, 0),
        (900.0, 0),
    ]:
        made.tick(now)
        assert made.count(HOST, b"a") == over, now


@pytest.mark.parametrize(
    ("slip", "cut"), [(0, []), (1, [1, 2, 3, 4, 5, 6, 7, 8]), (2, [2, 4, 6, 8]), (3, [3, 6]), (10, [])]
)
def test_every_so_manieth_is_cut_and_the_others_are_dropped(slip: int, cut: list[int]) -> None:
    made = limiter(1, slip)
    assert counts(made) == [0]
    for over in range(1, 9):
        assert made.count(HOST, b"a") == over
        assert made.drops(over, HOST) is (over not in cut)
    assert (made.cut, made.dropped, made.last) == (len(cut), 8 - len(cut), HOST)


def test_forged_addresses_cost_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limiter, "MAX_HOSTS", 100)
    made = limiter()
    for number in range(250):
        made.count(str(ipaddress.IPv4Address(0x0B000000 + number)), b"%d" % number)
        assert len(made._networks) <= 100
        assert len(made._counts) == rate_limiter.SLOTS


ADDRESSES = st.ip_addresses()


@given(st.lists(st.tuples(ADDRESSES, st.integers(0, 3)), max_size=60))
def test_agrees_with_counting_by_hand(asked: list[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]]) -> None:
    """Two networks may share a slot by chance. That is unlikely here, and can only increase the slot's count."""
    made = limiter(2)
    by_hand: dict[object, int] = {}
    for address, kind in asked:
        over = made.count(str(address), b"%d" % kind)
        if address.is_loopback:
            assert over == 0
            continue
        bits = 24 if address.version == 4 else 56
        key = (ipaddress.ip_network((address, bits), strict=False), kind)
        by_hand[key] = by_hand.get(key, 0) + 1
        assert over >= max(0, by_hand[key] - 2)
