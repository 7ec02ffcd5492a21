"""Tests of lying and forged upstreams: only responses that match the question are accepted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

import dns.flags
import dns.message
import pytest

from lbdns.server.forwarding import upstreams
from tests.answering.asking import make_query
from tests.server.clients import ask_udp, until
from tests.server.forwarding.relaying import QUERY, addresses, relaying
from tests.server.forwarding.upstream import ADDRESS, good, lie, upstream


def wrong_id(query: dns.message.Message) -> bytes:
    message = lie(query)
    message.id ^= 1
    return message.to_wire()


def wrong_question(query: dns.message.Message) -> bytes:
    other = dns.message.make_query("evil.example.org", "A", id=query.id)
    return lie(other).to_wire()


def wrong_type(query: dns.message.Message) -> bytes:
    return lie(dns.message.make_query(query.question[0].name, "AAAA", id=query.id)).to_wire()


def no_response(query: dns.message.Message) -> bytes:
    message = lie(query)
    message.flags &= ~dns.flags.QR
    return message.to_wire()


def torn(query: dns.message.Message) -> bytes:
    return lie(query).to_wire()[:-1]


LIES = [wrong_id, wrong_question, wrong_type, no_response, torn]


@pytest.mark.parametrize("wrong", LIES)
async def test_what_does_not_fit_is_ignored(wrong: object) -> None:
    assert callable(wrong)
    async with upstream(lambda query: [wrong(query), b"x", *good(query)]) as up, relaying(up) as server:
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
        assert (server.count("ignored"), len(up.asked), len(up.asked_tcp)) == (2, 1, 0)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("wrong", LIES)
async def test_nothing_but_lies_is_nothing(wrong: object) -> None:
    assert callable(wrong)
    async with upstream(lambda query: [wrong(query)]) as bad, upstream() as up, relaying(bad, up) as server:
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]


async def test_the_letter_case_has_to_be_repeated() -> None:
    def lowered(query: dns.message.Message) -> Iterable[bytes]:
        wire = lie(query).to_wire()
        end = wire.index(0, 12)
        return [wire[:12] + wire[12:end].lower() + wire[end:]]

    async with upstream(lowered) as up, relaying(up) as server:
        name = "a.name.with.letters.enough.that.chance.will.not.make.them.all.small.example.org"
        # Over TCP, where nobody can guess, the case doesn't matter
        assert addresses(await ask_udp(server.endpoint, make_query(name, recurse=True))) == [ADDRESS]
        assert len(up.asked_tcp) == 1


async def test_a_rain_of_guesses_is_answered_with_tcp() -> None:
    guesses = 3 * upstreams.MAX_WRONG

    async with upstream(lambda query: [wrong_id(query)] * guesses) as up, relaying(up) as server:
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
        assert len(up.asked_tcp) == 1
        assert server.count("ignored") == upstreams.MAX_WRONG


@pytest.mark.parametrize("spoofer", [("127.0.0.1", None), ("127.0.0.66", "same port")])
async def test_who_is_not_the_upstream_is_not_heard(spoofer: tuple[str, str | None]) -> None:
    host, port = spoofer
    async with upstream() as up, relaying(up) as server:
        up.held.clear()
        asking = asyncio.create_task(ask_udp(server.endpoint, QUERY))
        await until(lambda: up.asked)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((host, up.endpoint.port if port else 0))
            # Everything right: id, question, letter case, and where to
            sock.sendto(lie(up.asked[0]).to_wire(), up.sources[0])
        up.held.set()
        assert addresses(await asking) == [ADDRESS]
        assert server.count("ignored") == 0, "the kernel didn't even hand it over"
