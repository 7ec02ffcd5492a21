"""Errors of sensors that have no value for a metric; the message tells an administrator why."""

from __future__ import annotations

from typing import Final

from lbdns_shared.errors import LbdnsError

LINUX_ONLY: Final = "measured on Linux only"


class MissingValueError(LbdnsError):
    """A source can't be read. The message says how to fix that, if it can be fixed."""


class SwitchedOffError(MissingValueError):
    """The command line turned the source off, or this system doesn't have it. Not worth a log line."""
