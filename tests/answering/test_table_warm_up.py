"""Tests of preparing an answer table for the queries that the table in use gets."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network

import dns.edns
import pytest

from lbdns.answering import table_warm_up
from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.query_shapes import FIRST_COOKIE_KIND
from lbdns.answering.responder import Responder
from lbdns.answering.table_warm_up import warm_up
from tests.answering.asking import client, make_query, read
from tests.answering.farms import hobbit, pool

SECRETS = (bytes(range(16)),)
COOKIE = dns.edns.GenericOption(dns.edns.OptionType.COOKIE, bytes(8))
QUERIES = [
    make_query(name, rtype, recurse=recurse, payload=payload)
    for name in ("best.hobbit", "round.robin.hobbit", "gandalf.hobbit", "nothing.best.hobbit")
    for rtype in ("A", "AAAA", "TXT")
    for recurse, payload in ((False, None), (True, 1232))
]


def asked(*queries: bytes, secrets: tuple[bytes, ...] = (), table: AnswerTable | None = None) -> Responder:
    responder = Responder(table or AnswerTable(hobbit()), secrets)
    for query in queries:
        assert responder.respond(query, client())
    return responder


def kinds(table: AnswerTable) -> dict[bytes, list[int]]:
    """Return the kinds of responses that the fast path has, by question."""
    return {
        key: [kind for kind, variants in enumerate(entry.variants) if variants] for key, entry in table.entries.items()
    }


def test_queries_that_took_the_fast_path_take_it_in_the_new_table() -> None:
    before = asked(*QUERIES)
    table = AnswerTable(hobbit())
    steps = sum(1 for _ in warm_up(table, before.table, has_cookies=False))
    assert kinds(table) == kinds(before.table)
    assert steps == sum(map(len, kinds(table).values()))
    after = Responder(table)
    after.sheds = lambda: True  # whatever needs the slow path
    for query in QUERIES:
        if b"nothing" not in query:
            assert after.respond(query, client())


def test_the_new_answers_are_those_of_the_new_farm() -> None:
    before = asked(make_query("best.hobbit"), make_query("gandalf.hobbit", "TXT"))
    table = AnswerTable(hobbit(pool(members=("frodo",)), more='gandalf 60 TXT "run"\n'))
    for _ in warm_up(table, before.table, has_cookies=False):
        pass
    after = Responder(table)
    assert "frodo" in str(read(after.respond(make_query("best.hobbit"), client())).answer)
    assert '"run"' in str(read(after.respond(make_query("gandalf.hobbit", "TXT"), client())).answer[0])


def test_names_and_zones_that_are_gone() -> None:
    before = asked(*QUERIES)
    table = AnswerTable(hobbit(pool(names={"other": "best"})))
    for _ in warm_up(table, before.table, has_cookies=False):
        pass
    assert {key[1:5] for key in table.entries} == {b"gand"}
    before = asked(*QUERIES)
    empty = AnswerTable(replace(hobbit(), zones={}))
    assert not list(warm_up(empty, before.table, has_cookies=False))


def test_the_questions_asked_most_often_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_warm_up, "MOST", 1)
    before = asked(make_query("bilbo.hobbit"), *[make_query("best.hobbit")] * 3, make_query("frodo.hobbit"))
    table = AnswerTable(hobbit())
    assert len(list(warm_up(table, before.table, has_cookies=False))) == 1
    (key,) = table.entries
    assert key[1:5] == b"best"


@pytest.mark.parametrize("has_cookies", [True, False])
def test_responses_with_cookies(has_cookies: bool) -> None:
    before = asked(
        make_query("best.hobbit", payload=1232, options=[COOKIE]), make_query("best.hobbit"), secrets=SECRETS
    )
    table = AnswerTable(hobbit())
    steps = len(list(warm_up(table, before.table, has_cookies)))
    (found,) = kinds(table).values()
    assert steps == len(found) == 1 + has_cookies
    assert any(kind >= FIRST_COOKIE_KIND for kind in found) is has_cookies


@pytest.mark.parametrize("forwards", [True, False])
def test_aliases_that_lead_out_of_the_zones(forwards: bool) -> None:
    """If queries are forwarded, the client decides whether the alias is the whole answer."""
    before = asked(make_query("out.hobbit"))
    farm = hobbit()
    forward = replace(farm.config.forward, allow=(ip_network("192.0.2.0/24"),) if forwards else ())
    table = AnswerTable(replace(farm, config=replace(farm.config, forward=forward)))
    assert bool(list(warm_up(table, before.table, has_cookies=False))) is not forwards
