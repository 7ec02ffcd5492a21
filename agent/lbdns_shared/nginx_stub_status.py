"""Parses nginx's ``stub_status`` page. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_PAGE: Final = re.compile(
    r"Active connections: (?P<active>\d{1,20})\s+"
    r"server accepts handled requests\s+"
    r"\d+ \d+ (?P<requests>\d{1,20})\s+"
    r"Reading: (?P<reading>\d{1,20}) Writing: (?P<writing>\d{1,20}) Waiting: (?P<waiting>\d{1,20})\s*\Z",
    re.ASCII,
)


@dataclass(frozen=True)
class StubStatus:
    """The values on the page."""

    requests: int  # since nginx started
    in_progress: int  # requests that nginx reads, waits for or answers, including the request for this page
    waiting: int = 0  # open connections without a request


def parse_stub_status(text: str) -> StubStatus:
    """Return the values on a ``stub_status`` page. Raises ValueError if the text is not such a page."""
    match = _PAGE.match(text.strip())
    if not match:
        raise ValueError("not a page of nginx's stub_status")
    return StubStatus(int(match["requests"]), int(match["reading"]) + int(match["writing"]), int(match["waiting"]))
