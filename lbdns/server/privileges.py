"""Giving up root once the sockets are open."""

from __future__ import annotations

import os
import pwd

from lbdns.errors import ConfigError


def check_user(user: str) -> None:
    """Raises ConfigError if ``user`` (may be empty: no change) doesn't exist."""
    if user:
        _entry(user)


def become(user: str) -> None:
    """Drop to ``user`` with its groups, for good. Does nothing without a user or when not started as root."""
    if not user or os.geteuid() != 0:
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
