"""Tests of ICMP probes on the loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lbdns.config.check_setting import CheckConfig, parse_target
from lbdns_collector.checks import icmp_prober
from lbdns_collector.checks.icmp_prober import IcmpProber
from lbdns_collector.checks.probe_result import PASSED
from lbdns_shared.errors import ConfigError
from tests.needs import needs

PATIENT = CheckConfig(parse_target("icmp"), timeout=30.0)
HASTY = CheckConfig(parse_target("icmp"), timeout=0.05)


@asynccontextmanager
async def started(*addresses: str) -> AsyncIterator[IcmpProber]:
    prober = IcmpProber()
    prober.open(addresses)
    prober.start()
    try:
        yield prober
    finally:
        prober.close()


@needs(root=True)
async def test_many_echoes_at_once() -> None:
    addresses = [f"127.0.0.{i}" for i in range(1, 201)]
    async with started(*addresses) as prober:
        results = await asyncio.gather(*(prober.probe(address, PATIENT) for address in addresses))
    assert results == [PASSED] * 200


@needs(root=True, ipv6=True)
async def test_ipv6_and_a_family_opened_later() -> None:
    async with started("127.0.0.1") as prober:
        assert (await prober.probe("::1", PATIENT)).passed is None
        prober.open(["127.0.0.1", "::1"])
        assert await prober.probe("::1", PATIENT) == PASSED
        assert await prober.probe("127.0.0.1", PATIENT) == PASSED


@needs(root=True)
async def test_a_reply_from_elsewhere_or_to_another_request_does_not_count() -> None:
    async with started("127.0.0.1") as prober:
        probe = asyncio.ensure_future(prober.probe("127.0.0.9", HASTY))
        await asyncio.sleep(0)
        ((address, sequence),) = prober._waiting
        prober._waiting["127.0.0.8", sequence] = prober._waiting.pop((address, sequence))
        prober._waiting[address, sequence] = prober._waiting["127.0.0.8", sequence]._replace(request=bytes(24))
        assert (await probe).passed is not True


async def test_without_permission_it_says_how_to_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(family: int) -> tuple[socket.socket, bool]:
        raise PermissionError

    monkeypatch.setattr(icmp_prober, "open_echo_socket", refuse)
    with pytest.raises(ConfigError, match=r"check: icmp: ICMP is not permitted; allow it with 'sysctl"):
        IcmpProber().open(["127.0.0.1"])
