"""Giving up root once the sockets are open, for good: ids, groups, capabilities, and every way to have them back."""

from __future__ import annotations

import contextlib
import importlib
import os
import pwd
from pathlib import Path
from typing import Final

from lbdns.errors import ConfigError
from lbdns.server.process import capabilities

_STATE_MODE: Final = 0o750  # history tells who was how busy: not everybody's affair

#: What is otherwise read in when it is first needed. By then files may be closed to us: an interpreter that was
#: installed in root's home, or a virtual environment there.
_LATE_MODULES: Final = (
    "dns.message",  # once there are secondaries to tell
    "lbdns.history.history",
    "lbdns.server.dns_metrics",
    "lbdns_collector.web.app",
    "lbdns_collector.web.metrics",
    "lbdns_collector.web.server",
    "psutil",  # once there are upstreams
)
#: The same, of every process that answers queries.
_LATE_MODULES_OF_WORKERS: Final = (
    "concurrent.futures.thread",  # asyncio.to_thread
    "dns.message",  # an alias of ours that leads to an upstream
    "encodings.idna",  # getaddrinfo
)


def check_user(user: str) -> None:
    """Raises ConfigError if ``user`` (may be empty: no change) doesn't exist."""
    if user:
        _entry(user)


def will_become(user: str) -> bool:
    """Whether ``become(user)`` changes anything."""
    return bool(user) and os.geteuid() == 0


def ids(user: str) -> tuple[int, int]:
    """User and group id of ``user``; those of this process if it is empty. Raises ConfigError."""
    if not user:
        return os.geteuid(), os.getegid()
    entry = _entry(user)
    return entry.pw_uid, entry.pw_gid


def read_ahead() -> None:
    """Import what is needed later, while everything can be read. Takes some tenths of a second."""
    read_ahead_for_workers()
    for module in _LATE_MODULES:
        importlib.import_module(module)


def read_ahead_for_workers() -> None:
    """The same for processes that only answer queries."""
    for module in _LATE_MODULES_OF_WORKERS:
        importlib.import_module(module)


def own_folder(path: Path, user: str) -> None:
    """Make the folder that ``user`` keeps its state in, if there is none and we may. What can't be had is told by who
    wants to write there."""
    with contextlib.suppress(OSError):
        if not path.exists():
            path.mkdir(_STATE_MODE, parents=True)
            if will_become(user):
                os.chown(path, *ids(user))


def limit(user: str) -> None:
    """Before anything else is started: nothing that this process executes may gain privileges.

    Does nothing for root that is to stay root, whom an administrator has told to be all-powerful.
    """
    if os.geteuid() != 0 or will_become(user):
        capabilities.forbid_new_ones()


def become(user: str) -> None:
    """Drop to ``user`` with its groups, for good, and every capability with it.

    Without a user, or when not started as root, nobody else is become; whoever is not root then gives up the
    capabilities it may have been started with. A port below 1024 can't be had afterwards: keeping
    CAP_NET_BIND_SERVICE for a reload that may never come would let a broken-into server take the place of another.
    """
    if will_become(user):
        entry = _entry(user)
        os.initgroups(user, entry.pw_gid)
        os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
        os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    if os.geteuid() != 0:
        capabilities.give_up_all()


def _entry(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise ConfigError(f"[server] user: there is no user {user!r}; 'adduser --system {user}' makes one") from None
