"""Why a source can't be read, said to an administrator."""

from lbdns.errors import LbdnsError


class AbsentError(LbdnsError):
    """A source that can't be read; the message says what to do about it where something can be done."""


class SwitchedOffError(AbsentError):
    """A source that the command line turned off: not worth a log line."""
