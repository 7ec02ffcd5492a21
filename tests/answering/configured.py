"""Responders for tests of what the operator can set: sections of the configuration, cookies, the rate limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.plane import PYTHON_PLANE, Plane
from lbdns.answering.responder import Responder
from lbdns.config import CookiesConfig, RateLimitConfig, ServerConfig
from lbdns.model.farm import Farm
from tests.answering.farms import hobbit

SECRET = bytes(range(16))
NOW = 1000.0  # monotonic seconds
WALL = 1_700_000_000.0  # Unix seconds


def configured(
    farm: Farm | None = None,
    server: ServerConfig | None = None,
    cookies: CookiesConfig | None = None,
    rate_limit: RateLimitConfig | None = None,
) -> Farm:
    """The zone ``hobbit``, or ``farm``, with these sections."""
    farm = farm or hobbit()
    config = replace(
        farm.config,
        server=server or farm.config.server,
        cookies=cookies or farm.config.cookies,
        rate_limit=rate_limit or farm.config.rate_limit,
    )
    return replace(farm, config=config)


_planes: list[Plane] = [PYTHON_PLANE]


@contextmanager
def using(plane: Plane) -> Iterator[None]:
    """Until the end responders are of this plane."""
    _planes.append(plane)
    yield
    _planes.pop()


def at_work(farm: Farm, secrets: tuple[bytes, ...] = (SECRET,)) -> Responder:
    """A responder that has been told the time and, unless without ``secrets``, gives cookies."""
    responder = Responder(AnswerTable(farm, _planes[-1]), secrets)
    responder.tick(NOW, WALL)
    return responder
