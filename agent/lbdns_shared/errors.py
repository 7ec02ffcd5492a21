"""The errors that programs show to users, each with the exit status that it causes."""

from __future__ import annotations


class LbdnsError(Exception):
    """Base class for errors that a user can fix. The message states what is wrong, where, and how to fix it.

    Programs print the message without a traceback and exit with ``exit_status``.
    """

    exit_status = 1


class ConfigError(LbdnsError):
    """Raised for invalid arguments or configuration. Each of ``findings`` is a line: ``FILE[:LINE]: where: what``."""

    exit_status = 2

    def __init__(self, *findings: str) -> None:
        super().__init__("\n".join(findings))
        self.findings = findings


class ZoneFileError(ConfigError):
    """Raised for errors in a master file."""


class KeyFileError(ConfigError):
    """Raised if a key file can't be read, contains an invalid line or lacks a required key."""


class ListenError(LbdnsError):
    """Raised if an address to listen on is in use, does not belong to this host, or is not permitted."""


class ReportError(LbdnsError):
    """Raised for a datagram that is not an acceptable report. ``reason`` is one of ``lbdns_shared.report.REASONS``."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class UnknownNameError(LbdnsError):
    """Raised for a name, pool or member that doesn't exist."""
