"""The errors a user can cause or meet, each with the exit status its program ends with."""

from __future__ import annotations


class LbdnsError(Exception):
    """Something went wrong that a person can mend; the message says what, where, and what instead.

    Programs print the message without a traceback and exit with ``exit_status``.
    """

    exit_status = 1


class ConfigError(LbdnsError):
    """Bad arguments or configuration: one or more findings, each a line ``FILE[:LINE]: where: what``."""

    exit_status = 2

    def __init__(self, *findings: str) -> None:
        super().__init__("\n".join(findings))
        self.findings = findings


class ZoneFileError(ConfigError):
    """A master file that can't be served as it is."""


class KeyFileError(ConfigError):
    """A key file that can't be read or holds something that is no key."""


class ListenError(LbdnsError):
    """An address that can't be listened on: taken, not ours, or not permitted."""


class ReportError(LbdnsError):
    """A datagram that is no acceptable report. ``reason`` is one of ``lbdns.report.REASONS``."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class UnknownNameError(LbdnsError):
    """Something was asked about a name, a pool or a member that there isn't."""
