"""Queries and their answers for tests of the query log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lbdns.config.recording_sections import QueryLogConfig
from lbdns.model.farm import Farm
from lbdns.server.query_log.query_line import LoggedQuery
from tests.answering.asking import UDP, make_query, make_responder

QUERY: Final = make_query("round.robin.hobbit")


def logging_to(farm: Farm, file: Path | None, sample: float = 1.0) -> Farm:
    return replace(farm, config=replace(farm.config, query_log=QueryLogConfig(file, sample)))


def sample_of(query: bytes, response: bytes | None, **changes: Any) -> LoggedQuery:
    return LoggedQuery(1000.25, ("192.0.2.7", 5353), UDP, query, response, False, 0.0000123)._replace(**changes)


def answered(farm: Farm, query: bytes) -> bytes:
    response = make_responder(farm).respond(query, ("192.0.2.7", 5353))
    assert isinstance(response, bytes)
    return response
