"""Logging for every program: one line an event on standard error, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        # One line an event: what a peer sent must not be able to forge another, nor to steer the terminal
        line = super().formatMessage(record)
        return line if line.isprintable() else "".join(map(_printable, line))


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def set_up(log_format: str = "text", level: str = "info") -> None:
    """Send the records of this process to standard error. Called once, by a program's command line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
