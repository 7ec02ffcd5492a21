"""Giving up root once the sockets are open."""

from __future__ import annotations

import importlib
import os
import pwd
from typing import Final

from lbdns.errors import ConfigError

#: What is otherwise read in when it is first needed. By then files may be closed to us: an interpreter that was
#: installed in root's home, or a virtual environment there.
_LATE_MODULES: Final = (
    "encodings.idna",  # getaddrinfo
    "lbdns.server.dns_metrics",
    "lbdns_collector.web.app",
    "lbdns_collector.web.metrics",
    "lbdns_collector.web.server",
)


def check_user(user: str) -> None:
    """Raises ConfigError if ``user`` (may be empty: no change) doesn't exist."""
    if user:
        _entry(user)


def will_become(user: str) -> bool:
    """Whether ``become(user)`` changes anything."""
    return bool(user) and os.geteuid() == 0


def read_ahead() -> None:
    """Import what is needed later, while everything can be read. Takes some tenths of a second."""
    for module in _LATE_MODULES:
        importlib.import_module(module)


def become(user: str) -> None:
    """Drop to ``user`` with its groups, for good. Does nothing without a user or when not started as root."""
    if not will_become(user):
        return
    entry = _entry(user)
    os.initgroups(user, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def _entry(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise ConfigError(f"[server] user: there is no user {user!r}; 'adduser --system {user}' makes one") from None
