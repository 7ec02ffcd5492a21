"""The errors that programs show to users, each with the exit status of the program."""

from __future__ import annotations


class LbdnsError(Exception):
    """An error that a user can fix. The message says what is wrong, where, and what to do instead.

    Programs print the message without a traceback and exit with ``exit_status``.
    """

    exit_status = 1


class ConfigError(LbdnsError):
    """Bad arguments or a bad configuration. Each finding is one line, ``FILE[:LINE]: where: what``."""

    exit_status = 2

    def __init__(self, *findings: str) -> None:
        super().__init__("\n".join(findings))
        self.findings = findings


class ZoneFileError(ConfigError):
    """A master file with an error."""


class KeyFileError(ConfigError):
    """A key file that can't be read, or has a line that is not a key."""


class ListenError(LbdnsError):
    """An address to listen on that is in use, not one of this host's, or not permitted."""


class ReportError(LbdnsError):
    """A datagram that is not an acceptable report. ``reason`` is one of ``lbdns_shared.report.REASONS``."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class UnknownNameError(LbdnsError):
    """A name, pool or member that doesn't exist."""
