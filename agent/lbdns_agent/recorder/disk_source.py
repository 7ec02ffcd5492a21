"""Reads the counters of the selected disks, and logs when a disk disappears or returns."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lbdns_agent.missing_values import failure_reason
from lbdns_agent.recorder import diskstats
from lbdns_agent.recorder.disk_table import DiskFormat
from lbdns_agent.recorder.diskstats import DiskCounterLine
from lbdns_shared.errors import ConfigError, LbdnsError

SOURCE: Final = "/proc/diskstats"
DEV: Final = "/dev/"

log = logging.getLogger("lbdns.recorder")


class DiskSource:
    """The counters of ``devices``, or of all devices if ``devices`` is empty.

    ``read`` returns the content of /proc/diskstats.
    """

    def __init__(self, read: Callable[[], bytes], devices: Sequence[str], table_format: DiskFormat) -> None:
        self._read = read
        self._devices = devices
        self._format = table_format
        self._gone: frozenset[str] = frozenset()
        self._failure = ""

    def check(self) -> None:
        """Raise ConfigError if a device doesn't exist, and LbdnsError if the counters can't be read."""
        try:
            lines = diskstats.parse(self._read())
        except (OSError, ValueError) as error:
            raise LbdnsError(f"{failure_reason(error, SOURCE)}; disks can be recorded on Linux only") from None
        unknown = [device for device in self._devices if device not in lines]
        if unknown:
            raise ConfigError(*(f"--devices: {unknown_device(device, list(lines))}" for device in unknown))

    def take(self, clock: Callable[[], float]) -> tuple[str, list[str]]:
        """Return the header, and a row for each device that exists now. If reading fails, return no rows."""
        try:
            lines = diskstats.parse(self._read())
        except (OSError, ValueError) as error:
            self._note_failure(failure_reason(error, SOURCE))
            return "", []
        now = clock()
        self._note_failure("")
        self._note_devices(lines)
        return self._format.table(now, self._select(lines))

    def _select(self, lines: Mapping[str, DiskCounterLine]) -> list[DiskCounterLine]:
        if not self._devices:
            return list(lines.values())
        return [lines[device] for device in self._devices if device in lines]

    def _note_failure(self, failure: str) -> None:
        if failure and not self._failure:
            log.error("%s; no disk is recorded until this file can be read again", failure)
        elif self._failure and not failure:
            log.info("%s: can be read again", SOURCE)
        self._failure = failure

    def _note_devices(self, lines: Mapping[str, DiskCounterLine]) -> None:
        gone = frozenset(self._devices).difference(lines)
        for device in sorted(gone - self._gone):
            log.warning("%s: the device has disappeared; it is recorded again when it returns", device)
        for device in sorted(self._gone - gone):
            log.info("%s: the device has returned", device)
        self._gone = gone


def device_name(text: str) -> str:
    """Return the kernel's name for a device. ``text`` is this name, or a path such as /dev/disk/by-label/data."""
    if not text.startswith(DEV):
        return text
    path = os.path.realpath(text)
    return path[len(DEV) :] if path.startswith(DEV) else text


def unknown_device(device: str, known: Sequence[str]) -> str:
    """Return an error message that lists the known devices. Pure."""
    close = difflib.get_close_matches(device, known, n=1)
    hint = f". Perhaps you meant {close[0]!r}?" if close else ""
    return f"unknown device {device!r}; {SOURCE} lists: {', '.join(known) or 'no device'}{hint}"
