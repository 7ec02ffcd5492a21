"""The errors that programs show to users, with one exit status for each kind of error."""

from __future__ import annotations


class LbdnsError(Exception):
    """Base class for errors that a user can fix. The message states what is wrong, where, and how to fix it.

    A program prints the message without a traceback and exits with ``exit_status``.
    """

    exit_status = 1


class ConfigError(LbdnsError):
    """Raised if arguments or the configuration are invalid.

    Each item of ``findings`` is one line: ``FILE[:LINE]: where: what``.
    """

    exit_status = 2

    def __init__(self, *findings: str) -> None:
        super().__init__("\n".join(findings))
        self.findings = findings


class ZoneFileError(ConfigError):
    """Raised if a master file contains errors."""


class KeyFileError(ConfigError):
    """Raised if a key file can't be read, contains an invalid line or lacks a required key."""


class ListenError(LbdnsError):
    """Raised if a program can't listen on an address, because the address is in use, not local or not permitted."""


class ReportError(LbdnsError):
    """Raised if a datagram is not an acceptable report. ``reason`` is one of ``lbdns_shared.report.REASONS``."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class UnknownNameError(LbdnsError):
    """Raised if a name, pool or member doesn't exist."""


class LastMemberError(LbdnsError):
    """Raised if an override would leave a pool without a usable member.

    Users can avoid this error by forcing the override.
    """
