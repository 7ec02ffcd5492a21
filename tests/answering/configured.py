"""Responders for tests of configuration sections, cookies and rate limiting."""

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
    """Return ``farm`` (default: a farm of zone ``hobbit``) with these configuration sections."""
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
    """Make responders use this plane until the end of the with block."""
    _planes.append(plane)
    yield
    _planes.pop()


def at_work(farm: Farm, secrets: tuple[bytes, ...] = (SECRET,)) -> Responder:
    """Return a responder whose clock shows a fixed time. It supports cookies unless ``secrets`` is empty."""
    responder = Responder(AnswerTable(farm, _planes[-1]), secrets)
    responder.tick(NOW, WALL)
    return responder
