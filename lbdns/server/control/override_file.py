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
from lbdns.model.shared_orders import NO_ORDERS, SharedOrders, read_order_document
from lbdns.process.atomic_file import replace_file
from lbdns.server.control.override_events import OverrideEvents

FILE_NAME: Final = "overrides.json"
MODE: Final = 0o600  # the reasons that users give are only for those who may see the web interface
FOLDER_MODE: Final = 0o755
PATIENCE: Final = 5.0  # s that a command waits for the disk
_ASIDE: Final = 1000  # number of broken files to keep; after that, the last one is replaced


def read(path: Path) -> tuple[Overrides, SharedOrders, str]:
    """Return the overrides in the file, the shared orders, and a description of any error (empty if there is none).

    The function blocks on disk I/O. A file with errors is renamed, so that the next change does not overwrite it. The
    valid overrides in such a file are still returned.
    """
    nothing = NO_OVERRIDES, NO_ORDERS
    try:
        document = json.loads(path.read_bytes())
        items, shared = document["overrides"], document.get("shared_orders", [])
        if not isinstance(items, list) or not isinstance(shared, list):
            raise TypeError("must be a list")
    except FileNotFoundError:
        return *nothing, ""
    except NotADirectoryError as error:
        return *nothing, f"{path}: cannot read the file: {error.strerror}"
    except OSError as error:
        return *nothing, f"{path}: cannot read the file: {error.strerror}; {_move_aside(path)}"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return *nothing, f"{path}: not a valid override file; {_move_aside(path)}"
    found, wrong = _read_items(items)
    orders, wrong_orders = read_orders(shared)
    if not wrong and not wrong_orders:
        return found, orders, ""
    what, count, of = ("overrides", wrong, items) if wrong else ("shared orders", wrong_orders, shared)
    return found, orders, f"{path}: {count} of {len(of)} {what} are not valid; {_move_aside(path)}"


def read_orders(items: list[Any]) -> tuple[SharedOrders, int]:
    """Return the orders that are valid, and the number of those that are not."""
    found = []
    for item in items:
        with contextlib.suppress(ValueError):
            found.append(read_order_document(item))
    return SharedOrders({order.place: order for order in found}), len(items) - len(found)


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


def write(path: Path, overrides: Overrides, orders: SharedOrders = NO_ORDERS) -> None:
    """Replace the file; a missing file is created only if there are overrides or orders.

    The function blocks on disk I/O. Raises OSError.
    """
    if not overrides.items and not orders.orders and not os.path.exists(path):  # also False without permission to look
        return
    shared = {"shared_orders": [order.document() for order in orders.orders.values()]} if orders.orders else {}
    document = {"overrides": [override.document() for override in overrides.items], **shared}
    text = json.dumps(document, indent=1) + "\n"
    path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    replace_file(path, text, MODE, sync=True)


class OverrideStore:
    """Writes the newest overrides to the file; each write runs in a background thread, one write at a time."""

    def __init__(self, path: Path, events: OverrideEvents) -> None:
        self.path = path  # may be changed; the file at the old path is removed once the new one is written
        self.failure = ""  # why the newest overrides cannot be written
        self._events = events
        self._written: tuple[Path, Overrides, SharedOrders] | None = None
        self._wanted: tuple[Overrides, SharedOrders] = NO_OVERRIDES, NO_ORDERS
        self._writing: asyncio.Task[None] | None = None

    async def load(self) -> tuple[Overrides, SharedOrders]:
        """Return the overrides and the shared orders in the file. If the file contains an error, record an event."""
        path = self.path
        found, orders, error = await asyncio.to_thread(read, path)
        if error:
            self._events.record(error, level=logging.WARNING)
        else:
            self._written = path, found, orders
        return found, orders

    def has(self, overrides: Overrides, orders: SharedOrders = NO_ORDERS) -> bool:
        """Return whether these overrides and orders are on disk."""
        return self._written == (self.path, overrides, orders)

    def write(self, overrides: Overrides, orders: SharedOrders = NO_ORDERS) -> None:
        """Start writing these overrides and orders, without waiting for the disk."""
        self._wanted = overrides, orders
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    async def save(self, overrides: Overrides, orders: SharedOrders = NO_ORDERS) -> str:
        """Wait up to PATIENCE seconds for the overrides and orders to be written to disk.

        Return the reason why the overrides have not been written, or an empty string after a successful write.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE
        if self.failure or not self.has(overrides, orders):
            self.write(overrides, orders)
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
            while must_write or self._written != (self.path, *self._wanted):
                must_write, wanted = False, (self.path, *self._wanted)
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
