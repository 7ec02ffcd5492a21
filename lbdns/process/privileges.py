"""Irrevocably drops root privileges (user, groups and capabilities) once the sockets are open."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import pwd
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from lbdns.process.prctl import forbid_new_capabilities, give_up_capabilities
from lbdns_shared import log_writer
from lbdns_shared.errors import ConfigError

log = logging.getLogger("lbdns.privileges")

_STATE_MODE: Final = 0o750  # the history shows the load of each host

#: Modules that are imported when they are first needed. By then their files may be unreadable: the interpreter or its
#: virtual environment may be in root's home.
_LATE_MODULES: Final = (
    "dns.message",  # for NOTIFY
    "lbdns.history.live_history",
    "lbdns.server.server_families",
    "lbdns_collector.web.app",
    "lbdns_collector.prometheus.status_families",
    "lbdns_collector.web.http_server",
    "psutil",  # for upstreams
)
#: Such modules for every process that answers queries.
_LATE_MODULES_OF_WORKERS: Final = (
    "concurrent.futures.thread",  # asyncio.to_thread
    "dns.message",  # for aliases that lead to an upstream
    "encodings.idna",  # getaddrinfo
)


def check_user(user: str) -> None:
    """Raise ConfigError if ``user`` doesn't exist. An empty ``user`` is valid: the process keeps its current user."""
    if user:
        _entry(user)


def will_become(user: str) -> bool:
    """Return whether ``become(user)`` would change the user of this process."""
    return bool(user) and os.geteuid() == 0


def ids(user: str) -> tuple[int, int]:
    """Return the user and group IDs of ``user``, or those of this process if ``user`` is empty. Raises ConfigError."""
    if not user:
        return os.geteuid(), os.getegid()
    entry = _entry(user)
    return entry.pw_uid, entry.pw_gid


def read_ahead() -> None:
    """Import modules that are needed later, because their files may become unreadable.

    The imports take a few tenths of a second.
    """
    read_ahead_for_workers()
    for module in _LATE_MODULES:
        importlib.import_module(module)


def read_ahead_for_workers() -> None:
    """Import the modules needed later by a process that only answers queries."""
    for module in _LATE_MODULES_OF_WORKERS:
        importlib.import_module(module)


async def drop_root(user: str, configuration: Path, files: Iterable[Path]) -> None:
    """Import what will be needed later, and continue as ``user``.

    Logs a warning if the user cannot read some of ``files``, which a reload will read again, or cannot enter a folder
    above them.
    """
    if not will_become(user):
        become(user)
        return
    await asyncio.to_thread(read_ahead)
    become(user)
    unreadable = [path for path in files if not os.access(path, os.R_OK)]
    closed = dict.fromkeys(folder for path in unreadable if (folder := _closed_folder(path)))
    if closed:
        _warn(configuration, user, "enter the folder", closed, "chmod o+x")
    if in_open_folders := [path for path in unreadable if _closed_folder(path) is None]:
        _warn(configuration, user, "read", in_open_folders, f"chown {user}")


def _closed_folder(path: Path) -> Path | None:
    """Return the topmost folder above ``path`` that this process cannot enter, or None if it can enter all of them."""
    return next((folder for folder in reversed(path.absolute().parents) if not os.access(folder, os.X_OK)), None)


def _warn(configuration: Path, user: str, lacking: str, paths: Iterable[Path], remedy: str) -> None:
    names = [str(path) for path in paths]
    log.warning(
        "%s: user %s cannot %s %s, so the next reload will fail; run '%s %s'",
        *(configuration, user, lacking, ", ".join(names), remedy, " ".join(names)),
    )


def own_folder(path: Path, user: str) -> None:
    """Create the state directory for ``user`` if it is missing and this process may create it.

    Errors are ignored here, because the program reports them when it later tries to write a file to the directory.
    """
    with contextlib.suppress(OSError):
        if not path.exists():
            path.mkdir(_STATE_MODE, parents=True)
            if will_become(user):
                os.chown(path, *ids(user))


def limit(user: str) -> None:
    """Prevent programs that are executed later from gaining privileges.

    Call this function before starting threads or processes. If the server keeps running as root, the function does
    nothing.
    """
    if os.geteuid() != 0 or will_become(user):
        forbid_new_capabilities()


def become(user: str) -> None:
    """Switch to ``user`` and that user's groups, and give up every capability.

    The process cannot regain lost privileges. The user and group IDs do not change if ``user`` is empty or this process
    is not root. A process that remains root keeps its capabilities.

    After the switch, ports below 1024 cannot be bound. CAP_NET_BIND_SERVICE is dropped too, because it would let a
    compromised server impersonate another server.
    """
    if will_become(user):
        entry = _entry(user)
        os.initgroups(user, entry.pw_gid)
        os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
        os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    if os.geteuid() != 0:
        log_writer.end_threads()  # threads keep the capabilities with which they start
        give_up_capabilities()
        log_writer.start_threads()


def _entry(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        create = f"create it with 'adduser --system {user}'"
        raise ConfigError(f"[server] user: there is no user {user!r}; {create}") from None
