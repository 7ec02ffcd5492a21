"""Tests of the rate limit log: each attack is logged once, with figures and advice."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.responder import Responder
from lbdns.config import RateLimitConfig
from lbdns.server.transport.rate_limit_log import RateLimitLog
from tests.answering.asking import make_query
from tests.answering.farms import hobbit
from tests.server.clients import until

CLIENT = ("192.0.2.1", 5353)


def limited() -> Responder:
    farm = hobbit()
    rules = RateLimitConfig(responses_per_second=1, slip=2)
    return Responder(AnswerTable(replace(farm, config=replace(farm.config, rate_limit=rules))))


async def test_it_tells_how_many_and_whom_once(caplog: pytest.LogCaptureFixture) -> None:
    responder = limited()
    limits = RateLimitLog(responder, every=0.01)
    for _ in range(6):
        responder.respond(make_query("best.hobbit"), CLIENT)
    with caplog.at_level(logging.WARNING):
        await until(lambda: caplog.records)
        for _ in range(3):
            responder.respond(make_query("best.hobbit"), CLIENT)
        limits.stop()  # tells the rest
        limits.stop()
    assert [record.getMessage().split(".")[0] for record in caplog.records] == [
        "rate limit: 3 responses dropped, 2 truncated; the last such response was for 192",
        "rate limit: 1 responses dropped, 2 truncated; the last such response was for 192",
    ]
    assert "exempt" in caplog.text


async def test_nobody_limited_nothing_said(caplog: pytest.LogCaptureFixture) -> None:
    limits = RateLimitLog(limited(), every=0.001)
    await asyncio.sleep(0.01)
    limits.stop()
    assert not caplog.records
