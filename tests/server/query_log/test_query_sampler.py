"""Tests of the query sampler: every query is equally likely to be logged."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from lbdns.server.query_log.query_sampler import next_gap
from tests.answering.farms import hobbit
from tests.needs import needs
from tests.server.clients import with_ids
from tests.server.query_log.query_samples import QUERY


@pytest.mark.parametrize("part", [1.0, 0.3, 0.01])
def test_each_query_is_taken_with_the_same_probability(part: float) -> None:
    chance = random.Random(5)
    at, taken = 0, []
    while at < 200_000:
        at += next_gap(part, chance.random())
        taken.append(at)
        at += 1
    assert len(taken) == pytest.approx(200_000 * part, rel=0.05)
    # Whatever the period of what is asked: its places are met alike
    for period in (2, 3, 10):
        met = Counter(place % period for place in taken)
        assert max(met.values()) < 1.25 * len(taken) / period
        assert min(met.values()) > 0.75 * len(taken) / period


@needs(native=True)
@pytest.mark.parametrize("part", [1.0, 0.25, 0.02])
def test_the_native_part_takes_as_many(part: float) -> None:
    import lbdns_native

    from lbdns.answering.plane import NativePlane
    from tests.answering.test_plane import NOW, WALL, Asked

    asked = Asked(hobbit(), NativePlane(), ())
    try:
        batch = asked.batch
        assert batch is not None
        asked.ask(QUERY)
        batch.sample(part, 99)
        responder, counts = asked.responder, Counter[str]()
        total = 20_000
        for _ in range(total // 50):
            for query in with_ids(QUERY, range(50)):
                asked.client.send(query)
            read = 0
            while read < 50:
                read += batch.drain(
                    asked.sock.fileno(), responder.table.native, responder.limiter, responder.selector.retransmissions,
                    responder.selector.affinity, responder.cookies, NOW, WALL, False,
                )[0]  # fmt: skip
                for query, _client, response, seconds in batch.take_samples():
                    counts["taken"] += 1
                    counts[f"place {int.from_bytes(query[:2], 'big') % 5}"] += 1
                    assert response is not None
                    assert response[:2] == query[:2]
                    assert 0 < seconds < 60
            for _ in range(50):
                asked.client.recv(512)
        assert counts["taken"] == pytest.approx(total * part, rel=0.15 if part < 0.1 else 0.05)
        assert min(counts[f"place {place}"] for place in range(5)) > 0.6 * counts["taken"] / 5
        batch.sample(0.0, 0)
        asked.ask(QUERY)
        assert batch.take_samples() == []
        with pytest.raises(ValueError, match="between 0 and 1"):
            lbdns_native.DatagramBatch().sample(1.5, 0)
    finally:
        asked.close()
