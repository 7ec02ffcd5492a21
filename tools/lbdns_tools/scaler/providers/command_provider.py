"""The provider ``command``: servers that the user's own commands list, create, start, stop and delete."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable
from lbdns.text.counts import counted
from lbdns.text.suggestions import suggestion
from lbdns_tools.scaler.providers.machine_list import parse_machines
from lbdns_tools.scaler.providers.provider import Machine, MachineStatus, ProviderError, QuotaError

QUOTA_STATUS: Final = 3  # exit status by which a command reports that a quota is used up
MAX_OUTPUT: Final = 4 * 2**20  # bytes: about 20 000 servers
MAX_MESSAGE: Final = 500  # characters of standard error in an error message
_KEPT_ERRORS: Final = 16 * 2**10  # bytes of standard error; the rest is read and dropped
_CHUNK: Final = 64 * 2**10  # bytes
_PLACEHOLDER: Final = re.compile(r"\{(\w*)\}")
Argv = tuple[str, ...]


def _command(*placeholders: str, required: bool = True) -> Argv:
    """Return a field for a command. ``placeholders`` lists the placeholders that its words may contain."""

    def parse(table: TomlTable, key: str, _: object) -> Argv:
        if isinstance(table.values.get(key), str):
            name = ', "{name}"' if "name" in placeholders else ""
            table.wrong(key, f'must be a list of words, such as ["/usr/local/bin/{key}-server"{name}]')
        words = table.strings(key)
        if not words and required:
            table.wrong(key, "is missing; write the command as a list of words")
        elif key in table.values and not (words and words[0]):
            table.wrong(key, "must begin with the name of a program")
        for word in words:
            for found in _PLACEHOLDER.findall(word):
                if found not in placeholders:
                    known = ", ".join(f"{{{known}}}" for known in placeholders)
                    what = f"unknown placeholder {{{found}}}; this command accepts {known}"
                    table.wrong(key, f"{what}{suggestion(found, placeholders)}", word)
        return words

    return read.key(parse, ())


@dataclass(frozen=True, slots=True)
class CommandConfig:
    """The settings of the provider ``command``. Each command is a list of words, which no shell interprets."""

    list: Argv = _command("farm")
    create: Argv = _command("farm", "name", "user_data_file")
    delete: Argv = _command("farm", "name")
    start: Argv = _command("farm", "name", required=False)
    stop: Argv = _command("farm", "name", required=False)
    timeout: float = read.duration(60.0, 0.1)  # of each command
    quota: int = read.integer(0, 0, 100_000)  # servers; 0: not known


def check_commands(config: CommandConfig, table: TomlTable) -> None:
    """Record an error if only one of ``start`` and ``stop`` is set."""
    if bool(config.start) != bool(config.stop):
        missing = "stop" if config.start else "start"
        table.wrong(missing, "is missing; set both start and stop, or neither")


class CommandProvider:
    """A provider that runs a command for each request. The provider keeps no state; only the commands do."""

    def __init__(self, config: CommandConfig, farm: str) -> None:
        self._config, self._farm = config, farm

    async def machines(self) -> tuple[Machine, ...]:
        """Run ``list``, and return the servers that it prints as JSON."""
        return parse_machines(await self._run("list", self._config.list, {}))

    async def quota(self) -> int | None:
        return self._config.quota or None

    async def create(self, name: str, user_data: str) -> None:
        """Run the command ``create`` unless the server exists. The file with the user data exists until the command
        ends."""
        machines = await self.machines()
        if any(machine.name == name for machine in machines):
            return
        if self._config.quota and len(machines) >= self._config.quota:
            raise QuotaError(f"cannot create {name}: the quota of {counted(self._config.quota, 'server')} is used up")
        try:
            with tempfile.NamedTemporaryFile("w", prefix="lbdns-scaler-", suffix=".sh", encoding="utf-8") as file:
                file.write(user_data)
                file.flush()
                await self._run("create", self._config.create, {"name": name, "user_data_file": file.name})
        except OSError as error:
            raise ProviderError(f"create: cannot write the user data of {name}: {error.strerror}") from None

    async def start(self, name: str) -> None:
        """Run ``start``, unless the server is already running or starting."""
        await self._change("start", self._config.start, name, (MachineStatus.RUNNING, MachineStatus.BUILDING))

    async def stop(self, name: str) -> None:
        """Run ``stop``, unless the server has already stopped or is stopping."""
        await self._change("stop", self._config.stop, name, (MachineStatus.STOPPED, MachineStatus.STOPPING))

    async def delete(self, name: str) -> None:
        """Run ``delete``, unless the server does not exist."""
        if await self._find(name):
            await self._run("delete", self._config.delete, {"name": name})

    async def close(self) -> None:
        """No-op: when no request is in progress, no command is running."""

    async def _find(self, name: str) -> Machine | None:
        return next((machine for machine in await self.machines() if machine.name == name), None)

    async def _change(self, what: str, command: Argv, name: str, done: tuple[MachineStatus, ...]) -> None:
        """Run a command on a server, unless its status is one of ``done``."""
        if not command:
            raise ProviderError(f"cannot {what} {name}: [provider] {what} is not set")
        machine = await self._find(name)
        if machine is None:
            raise ProviderError(f"cannot {what} {name}: the command 'list' does not print this server")
        if machine.status not in done:
            await self._run(what, command, {"name": name})

    async def _run(self, what: str, command: Argv, values: Mapping[str, str]) -> bytes:
        """Run a command, and return its standard output. Raises ProviderError, or QuotaError for exit status 3."""
        values = {**values, "farm": self._farm}
        words = [_PLACEHOLDER.sub(lambda match: values[match[1]], word) for word in command]
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # so that everything that the command has started can be killed
            )
        except OSError as error:
            raise ProviderError(f"{what}: cannot run {words[0]}: {error.strerror}") from None
        except ValueError as error:  # a null byte
            raise ProviderError(f"{what}: cannot run {words[0]}: {error}") from None
        try:
            async with asyncio.timeout(self._config.timeout):
                output, errors = await _communicate(what, process)
        except TimeoutError:
            raise ProviderError(f"{what}: {words[0]} {_delay(process, self._config.timeout)}") from None
        finally:
            await _end(process)
        if process.returncode:
            raise _failure(what, words[0], process.returncode, errors)
        return output


async def _communicate(what: str, process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """Wait until the process has ended, and return its output and the last bytes of its standard error. Raises
    ProviderError."""
    assert process.stdout
    assert process.stderr
    async with asyncio.TaskGroup() as tasks:
        output = tasks.create_task(_read_all(process.stdout, MAX_OUTPUT))
        errors = tasks.create_task(_read_end(process.stderr))
        tasks.create_task(process.wait())
    if len(output.result()) > MAX_OUTPUT:
        raise ProviderError(f"{what}: the command printed more than {MAX_OUTPUT} bytes")
    return output.result(), errors.result()


async def _read_all(stream: asyncio.StreamReader, limit: int) -> bytes:
    """Read ``stream`` to its end. Return at most its first ``limit`` + 1 bytes."""
    found = bytearray()
    while chunk := await stream.read(_CHUNK):
        found += chunk[: limit + 1 - len(found)]
    return bytes(found)


async def _read_end(stream: asyncio.StreamReader) -> bytes:
    """Read ``stream`` to its end, and return at most its last ``_KEPT_ERRORS`` bytes."""
    found = b""
    while chunk := await stream.read(_CHUNK):
        found = (found + chunk)[-_KEPT_ERRORS:]
    return found


def _delay(process: asyncio.subprocess.Process, seconds: float) -> str:
    if process.returncode is None:
        return f"did not end within {seconds:g} s"
    return f"has ended, but a background process kept its output open for {seconds:g} s; redirect that process's output"


async def _end(process: asyncio.subprocess.Process) -> None:
    """If the process is still running, kill it and its descendants.

    Descendants that have deliberately detached themselves continue to run.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    transport: Any = getattr(process, "_transport", None)  # asyncio has no public way to close the pipes
    if transport is not None:
        transport.close()


def _failure(what: str, program: str, status: int, errors: bytes) -> ProviderError:
    message = " ".join(errors.decode("utf-8", "replace").split())
    message = message if len(message) <= MAX_MESSAGE else f"... {message[-MAX_MESSAGE:]}"
    message = "".join(character if character.isprintable() else "?" for character in message)
    how = f"was killed by signal {-status}" if status < 0 else f"failed with exit status {status}"
    kind = QuotaError if status == QUOTA_STATUS else ProviderError
    return kind(f"{what}: {program} {how}: {message or 'it printed no error message'}")
