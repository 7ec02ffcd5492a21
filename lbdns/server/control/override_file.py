"""The file that preserves overrides across restarts.

The override file is read at startup and rewritten when an override changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from pathlib import Path
from typing import Any, Final

from lbdns.model.overrides import NO_OVERRIDES, Override, Overrides, read_override
from lbdns.process.atomic_file import replace_file
from lbdns.server.control.override_events import OverrideEvents

FILE_NAME: Final = "overrides.json"
MODE: Final = 0o600  # the reasons that users give are only for those who may see the web interface
FOLDER_MODE: Final = 0o755
PATIENCE: Final = 5.0  # s that a command waits for the disk
_ASIDE: Final = 1000  # number of broken files to keep; after that, the last one is replaced


def read(path: Path) -> tuple[Overrides, str]:
    """Return the overrides in the file, and a description of any error in the file (empty if there is none).

    The function blocks on disk I/O. A file with errors is renamed, so that the next change does not overwrite it. The
    valid overrides in such a file are still returned.
    """
    try:
        document = json.loads(path.read_bytes())
        items = document["overrides"]
        if not isinstance(items, list):
            raise TypeError("must be a list")
    except FileNotFoundError:
        return NO_OVERRIDES, ""
    except NotADirectoryError as error:
        return NO_OVERRIDES, f"{path}: cannot read the file: {error.strerror}"
    except OSError as error:
        return NO_OVERRIDES, f"{path}: cannot read the file: {error.strerror}; {_move_aside(path)}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return NO_OVERRIDES, f"{path}: not a valid override file; {_move_aside(path)}"
    found, wrong = _read_items(items)
    if not wrong:
        return found, ""
    return found, f"{path}: {wrong} of {len(items)} overrides are not valid; {_move_aside(path)}"


def _read_items(items: list[Any]) -> tuple[Overrides, int]:
    found: dict[tuple[str, str, str], Override] = {}
    wrong = 0
    for item in items:
        try:
            override = read_override(item)
        except ValueError:
            wrong += 1
        else:
            found[override.place] = override
    return Overrides(tuple(found.values())), wrong


def _move_aside(path: Path) -> str:
    try:
        aside = next(
            (name for n in range(1, _ASIDE) if not (name := path.with_name(f"{path.name}.bad-{n}")).exists()),
            path.with_name(f"{path.name}.bad-{_ASIDE}"),
        )
        path.rename(aside)
    except OSError as error:
        return f"the file could not be renamed: {error.strerror}"
    return f"moved to {aside}"


def write(path: Path, overrides: Overrides) -> None:
    """Replace the file; a missing file is created only if there are overrides.

    The function blocks on disk I/O. Raises OSError.
    """
    if not overrides.items and not os.path.exists(path):  # also False without permission to look
        return
    text = json.dumps({"overrides": [override.document() for override in overrides.items]}, indent=1) + "\n"
    path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    replace_file(path, text, MODE, sync=True)


class OverrideStore:
    """Writes the newest overrides to the file; each write runs in a background thread, one write at a time."""

    def __init__(self, path: Path, events: OverrideEvents) -> None:
        self.path = path  # may be changed; the file at the old path is removed once the new one is written
        self.failure = ""  # why the newest overrides cannot be written
        self._events = events
        self._written: tuple[Path, Overrides] | None = None
        self._wanted: Overrides = NO_OVERRIDES
        self._writing: asyncio.Task[None] | None = None

    async def load(self) -> Overrides:
        """Return the overrides in the file. If the file contains an error, record an event."""
        path = self.path
        found, error = await asyncio.to_thread(read, path)
        if error:
            self._events.record(error, level=logging.WARNING)
        else:
            self._written = path, found
        return found

    def has(self, overrides: Overrides) -> bool:
        """Return whether these overrides are on disk."""
        return self._written == (self.path, overrides)

    def write(self, overrides: Overrides) -> None:
        """Start writing these overrides, without waiting for the disk."""
        self._wanted = overrides
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    async def save(self, overrides: Overrides) -> str:
        """Wait up to PATIENCE seconds for the overrides to be written to disk.

        Return the reason why the overrides have not been written, or an empty string after a successful write.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE
        if self.failure or not self.has(overrides):
            self.write(overrides)
        while self._writing and (left := deadline - loop.time()) > 0:
            await asyncio.wait({self._writing}, timeout=left)
        if self._writing:
            return f"{self.path}: not written yet, because the disk is slow"
        return self.failure

    def stop(self) -> None:
        """Cancel the write in progress, if there is one."""
        if self._writing:
            self._writing.cancel()

    async def _write_all(self) -> None:
        try:
            # After a failure, write even what was written before: only a write shows that the disk works again
            must_write = bool(self.failure)
            while must_write or self._written != (self.path, self._wanted):
                must_write, wanted = False, (self.path, self._wanted)
                await asyncio.to_thread(write, *wanted)
                before, self._written = self._written, wanted
                if before and before[0] != wanted[0]:
                    with contextlib.suppress(OSError):  # a later start in that folder would use the old file
                        before[0].unlink()
            if self.failure:
                self._events.record(f"{self.path}: overrides are saved again")
            self.failure = ""
        except OSError as error:
            failure = f"{self.path}: cannot write the file: {error.strerror}"
            if failure != self.failure:
                what = f"{failure}; overrides stay in force only until the server stops"
                self._events.record(what, level=logging.WARNING)
            self.failure = failure
        finally:
            self._writing = None
