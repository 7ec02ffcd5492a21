"""The provider ``processes``: each server is a web server and an agent on a loopback address of this host."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import ipaddress
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import HOST_NAME, LOOPBACK, parse_network
from lbdns.demo.webserver import HTTP_PORT, WORKERS
from lbdns.text.counts import counted
from lbdns_shared.errors import KeyFileError
from lbdns_tools.scaler.providers.agent_settings import AgentSettings
from lbdns_tools.scaler.providers.machine_folder import KEY_FILE, LOG_FILE, LocalMachine, MachineFolder
from lbdns_tools.scaler.providers.provider import Machine, ProviderError, QuotaError

MAX_QUOTA: Final = 1000  # servers on one host: each is three processes
DEFAULT_QUOTA: Final = 10
_SUPERVISOR: Final = "lbdns_tools.scaler.providers.machine_supervisor"
_NEW, _DELETED = ".new.", ".deleted."  # suffixes of folders in the making; no host name ends with a dot
_LOCK_TRIES: Final = 20  # another process that only looks holds the lock for well below a millisecond
_LOCK_PAUSE: Final = 0.01  # s
KILL_AFTER: Final = 15.0  # s from the request to delete until the supervisor is killed; it needs 10 s at most

log = logging.getLogger("lbdns.scaler")


def _network(text: str) -> ipaddress.IPv4Network:
    network = parse_network(text)
    if not isinstance(network, ipaddress.IPv4Network) or not network.subnet_of(LOOPBACK[0]):  # type: ignore[arg-type]
        raise ValueError(f"{text!r} must be part of the loopback network 127.0.0.0/8, such as 127.0.1.0/24")
    return network


def _read_network(table: TomlTable, key: str, default: ipaddress.IPv4Network) -> ipaddress.IPv4Network:
    return table.parsed(key, str(default), _network, default)


@dataclass(frozen=True, slots=True)
class ProcessesConfig:
    """The settings of the provider ``processes``."""

    folder: Path = read.path("servers")  # contains a folder for each server
    network: ipaddress.IPv4Network = read.key(_read_network, ipaddress.IPv4Network("127.0.1.0/24"))
    port: int = read.integer(HTTP_PORT, 1, 65535)
    workers: int = read.integer(WORKERS, 1, 1000)  # requests that each web server serves concurrently
    quota: int = read.integer(DEFAULT_QUOTA, 0, MAX_QUOTA)  # servers
    boot_delay: float = read.duration(0.0)  # s from create or start until the processes are started
    fail_boot: tuple[str, ...] = read.each((), str)  # patterns for names of servers whose boots fail


class ProcessProvider:
    """A provider of local servers. All state is in the folder, so a new provider continues where the last one
    stopped."""

    def __init__(self, config: ProcessesConfig, agent: AgentSettings, farm: str) -> None:
        self._config = config
        self._agent = agent
        self._farm = farm
        self._spawned: set[int] = set()  # supervisors of this process that have not been waited for

    async def machines(self) -> tuple[Machine, ...]:
        """Return the servers of this farm in the folder, and finish deletions whose processes have ended."""
        self._reap()
        found = []
        for folder in self._folders():
            try:
                if folder.machine().farm == self._farm and not self._is_gone(folder):
                    found.append(folder.state())
            except ProviderError:
                if folder.path.exists():
                    raise  # otherwise, another process, such as a dry run, has finished the deletion
        return tuple(found)

    async def quota(self) -> int:
        """Return the configured quota, or the number of addresses in the network if that is smaller."""
        return min(
            self._config.quota, sum(1 for _ in zip(range(MAX_QUOTA), self._config.network.hosts(), strict=False))
        )

    async def create(self, name: str, user_data: str) -> None:
        """Create the folder of a server and start its supervisor. ``user_data`` is ignored: no machine boots."""
        if folder := self._find(name):
            await self._complete(folder)
            return
        if len(await self.machines()) >= await self.quota():
            raise QuotaError(f"cannot create {name}: the quota of {counted(await self.quota(), 'server')} is used up")
        await self._launch(self._make_folder(name))

    async def start(self, name: str) -> None:
        """Start the supervisor of a stopped or failed server."""
        folder = self._existing(name)
        request = folder.request()
        if request.wanted == "deleted":
            raise ProviderError(f"cannot start {name}: it is being deleted")
        if not await self._launch(folder) and request.wanted == "stopped":
            raise ProviderError(f"cannot start {name}: it is still stopping; try again when it has stopped")

    async def stop(self, name: str) -> None:
        """Ask the supervisor to stop the agent and then the web server.

        The agent sends a last report before it stops.
        """
        folder = self._existing(name)
        if folder.request().wanted == "running":
            folder.write_request("stopped", time.time())
        folder.send(signal.SIGTERM)

    async def delete(self, name: str) -> None:
        """Stop the server's processes. After they have ended, ``machines`` removes the server's folder."""
        folder = self._find(name)
        if folder is None:
            return
        if folder.request().wanted != "deleted":
            folder.write_request("deleted", time.time())
        folder.send(signal.SIGTERM)
        self._finish_deletion(folder)

    async def close(self) -> None:
        """Reap supervisors that have ended. Running servers continue to run."""
        self._reap()

    def _placed(self, machine: LocalMachine) -> LocalMachine:
        """Add the properties that the server's network requires in addition to the address, and return the result."""
        return machine

    def _clean_up(self, machine: LocalMachine) -> None:
        """Remove what a killed supervisor has left behind outside the server's folder. Raises LbdnsError."""

    def _find(self, name: str) -> MachineFolder | None:
        """Return a server's folder, or None if there is none. Raises ProviderError if it belongs to another farm."""
        if not HOST_NAME.match(name):
            raise ProviderError(f"{name!r} is not a host name relative to the zone, such as web-1")
        folder = MachineFolder(self._config.folder / name)
        if not folder.path.exists():
            return None
        if (farm := folder.machine().farm) != self._farm:
            raise ProviderError(f"{folder.path}: the server belongs to farm {farm!r}, not to {self._farm!r}")
        return folder

    def _existing(self, name: str) -> MachineFolder:
        folder = self._find(name)
        if folder is None:
            raise ProviderError(f"{self._config.folder / name}: there is no server with this name")
        return folder

    def _is_gone(self, folder: MachineFolder) -> bool:
        return folder.request().wanted == "deleted" and self._finish_deletion(folder)

    def _folders(self) -> Iterator[MachineFolder]:
        """Yield all servers' folders, and remove the remains of interrupted deletions."""
        try:
            names = sorted(os.listdir(self._config.folder))
        except FileNotFoundError:
            return
        except OSError as error:
            raise ProviderError(f"{self._config.folder}: cannot read the folder: {error.strerror}") from None
        for name in names:
            path = self._config.folder / name
            if name.endswith(_DELETED):
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_dir() and not name.endswith(_NEW):
                yield MachineFolder(path)

    def _remove_unfinished(self) -> None:
        """Delete the incomplete folders that interrupted calls of ``create`` have left behind. Only ``create`` may call
        this method, so that no folder is deleted while it is being created.
        """
        for path in self._config.folder.glob(f"*{_NEW}"):
            shutil.rmtree(path, ignore_errors=True)

    async def _complete(self, folder: MachineFolder) -> None:
        """Start a server whose creation was interrupted before its supervisor started."""
        if folder.request().wanted == "deleted":
            raise ProviderError(f"cannot create {folder.name}: a server with this name is being deleted")
        if folder.request().wanted == "running" and not folder.progress().pid:
            await self._launch(folder)

    def _make_folder(self, name: str) -> MachineFolder:
        """Create a complete folder under another name, and then rename it, so that a crash leaves no incomplete
        machine."""
        new = MachineFolder(self._config.folder / f"{name}{_NEW}")
        config = self._config
        self._remove_unfinished()
        fails = any(fnmatch.fnmatchcase(name, pattern) for pattern in config.fail_boot)
        agent = tuple(self._agent.options())
        address = self._free_address()
        machine = self._placed(
            LocalMachine(name, self._farm, address, config.port, config.workers, config.boot_delay, fails, agent)
        )
        try:
            key_line = self._agent.key_line(name)
            new.path.mkdir(0o700, parents=True)
            (new.path / KEY_FILE).touch(0o600, exist_ok=False)
            (new.path / KEY_FILE).write_text(f"{key_line}\n", "ascii")
            new.write_machine(machine)
            new.write_request("running", time.time())
            new.path.rename(config.folder / name)
        except OSError as error:
            raise ProviderError(f"cannot create {name}: {error.filename or new.path}: {error.strerror}") from None
        except KeyFileError as error:
            raise ProviderError(f"cannot create {name}: {error}") from None
        return MachineFolder(config.folder / name)

    def _free_address(self) -> str:
        """Return the lowest address that no server in the folder uses, whatever its farm."""
        used = {folder.machine().address for folder in self._folders()}
        for address in map(str, self._config.network.hosts()):
            if address not in used:
                return address
        raise QuotaError(f"all addresses of {self._config.network} are used")

    async def _launch(self, folder: MachineFolder) -> bool:
        """Start a supervisor unless one is already running. Return whether a supervisor was started. Raises
        ProviderError."""
        lock = folder.lock()
        for _ in range(_LOCK_TRIES):
            if lock is not None:
                break
            await asyncio.sleep(_LOCK_PAUSE)
            lock = folder.lock()
        if lock is None:
            return False
        try:
            folder.clear_progress()
            folder.write_request("running", time.time())
            self._spawn(folder, lock)
        except OSError as error:
            raise ProviderError(f"cannot start {folder.name}: {error.strerror}") from None
        finally:
            os.close(lock)
        return True

    def _spawn(self, folder: MachineFolder, lock: int) -> None:
        """Start a supervisor in a new session. It inherits the lock, so the lock is held at all times."""
        output = os.open(folder.path / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        inherited = os.dup(lock)
        try:
            os.set_inheritable(inherited, True)
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-m", _SUPERVISOR, str(folder.path.resolve())],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, output, 1),
                    (os.POSIX_SPAWN_DUP2, output, 2),
                ],
                setsid=True,
            )
        finally:
            os.close(inherited)
            os.close(output)
        self._spawned.add(pid)

    def _finish_deletion(self, folder: MachineFolder) -> bool:
        """Remove the folder if the server's processes have ended. Return whether the folder was removed."""
        lock = folder.lock()
        if lock is None:
            if time.time() - folder.request().since > KILL_AFTER:
                log.warning("server %s does not stop; killing it", folder.name)
                folder.send(signal.SIGKILL)
            return False
        try:
            self._clean_up(folder.machine())
            gone = folder.path.with_name(f"{folder.name}{_DELETED}")
            folder.path.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
        except OSError as error:
            raise ProviderError(f"cannot delete {folder.name}: {error.strerror}") from None
        finally:
            os.close(lock)
        return True

    def _reap(self) -> None:
        """Reap supervisors that have ended, so that they do not remain zombies."""
        for pid in tuple(self._spawned):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    continue
            self._spawned.discard(pid)
