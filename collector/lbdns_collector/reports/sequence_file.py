"""The sequence file preserves the hosts' newest sequence numbers across restarts, so that replays are still rejected.

The sequence file contains msgpack objects. The first object is a map with the format's version and the number of hosts.
Each of the other objects is a map from host names to records.

A thread rewrites the file while reports arrive, so that the event loop never waits for the disk. The file is not synced
to the disk, so after a power failure it may be outdated or damaged. After the machine restarts, the clock check rejects
all reports that were recorded before the power failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgpack

from lbdns.config import Config
from lbdns.events.event_log import EventLog
from lbdns.process.atomic_file import remove_leftovers, replace_file
from lbdns.process.duty_cycle import DutyCycle
from lbdns.text.counts import counted
from lbdns_collector.reports.report_table import ReportTable
from lbdns_collector.reports.reporting_peer import HostRecord
from lbdns_shared.errors import LbdnsError
from lbdns_shared.report import is_host_name

FILE_NAME: Final = "report-sequences"  # in [server] state_dir
VERSION: Final = 1  # of the file's format; programs ignore files with another version
MODE: Final = 0o600
FOLDER_MODE: Final = 0o750
#: The file is at most a second older than the newest report, unless writing takes longer than 0.3 s
SAVING: Final = DutyCycle(10.0, shortest=0.7)
STOP: Final = 5.0  # seconds that stopping waits for a slow disk
SLICE: Final = 1000  # hosts to encode before other threads may run; this takes about 0.2 ms
BREATH: Final = 0.0001  # seconds: enough for the event loop's thread to get the interpreter
MAX_BYTES: Final = 64 * 2**20  # a longer file is not ours; 10,000 hosts take about half a megabyte


def sequence_path(config: Config) -> Path:
    """Return the path of the sequence file."""
    return config.server.state_dir / FILE_NAME


def read(path: Path) -> dict[Any, Any]:
    """Return the records in the file by host name, or an empty dictionary if there is no file.

    This function blocks on disk I/O, and does not check the records. Raises LbdnsError if the file cannot be read or is
    not a sequence file of this version.
    """
    try:
        with path.open("rb") as file:
            parts = msgpack.Unpacker(file, strict_map_key=False, max_buffer_size=MAX_BYTES)
            head = parts.unpack()
            version, size = head["version"], head["hosts"]
            hosts: dict[Any, Any] = {}
            if version == VERSION:
                while len(hosts) < size:
                    hosts |= parts.unpack()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LbdnsError(f"{path}: cannot read the file: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, msgpack.UnpackException, RecursionError):
        raise LbdnsError(f"{path}: not a valid sequence file") from None
    if version != VERSION:
        raise LbdnsError(f"{path}: the file has version {version!r:.20}, not {VERSION}")
    return hosts


def write(path: Path, records: Mapping[str, HostRecord]) -> None:
    """Replace the file. This function blocks on disk I/O, and pauses often so that other threads can run.

    Raises OSError.
    """
    items = list(records.items())
    pieces = [msgpack.packb({"version": VERSION, "hosts": len(items)})]
    for start in range(0, len(items), SLICE):
        pieces.append(msgpack.packb(dict(items[start : start + SLICE])))
        time.sleep(BREATH)
    path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    replace_file(path, b"".join(pieces), MODE)


class SequenceKeeper:
    """Maintains the sequence file: loads the sequence numbers into a report table, and saves them while the collector
    runs.
    """

    def __init__(self, path: Path, table: ReportTable, events: EventLog) -> None:
        self.path = path  # may be changed; the file at the new path is then written at once
        self._table, self._events = table, events
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._saved: tuple[Path, int] | None = None  # the path, and the number of accepted reports
        self._failure = ""

    async def load(self) -> None:
        """Load the file into the report table.

        If the file contains an error, record an event, and continue without the file.
        """
        try:
            records = await asyncio.to_thread(read, self.path)
        except LbdnsError as error:
            self._record(f"{error}; replays of reports from the last 30 s will not be recognised", logging.WARNING)
            return
        valid = {name: record for name, record in records.items() if type(name) is str and is_host_name(name)}
        invalid = self._table.remember(valid, time.monotonic(), time.time()) + len(records) - len(valid)
        if invalid:
            self._record(f"{self.path}: {invalid} of {counted(len(records), 'record')} are not valid", logging.WARNING)
        self._saved = self.path, self._table.counts["accepted"]

    def start(self) -> None:
        """Start saving. Call this method after the program has dropped root privileges."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._stopping.clear()
            # A daemon thread: a disk that hangs must not keep the program from ending
            self._thread = threading.Thread(target=self._run, name="sequences", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        """Save the newest sequence numbers one last time, and stop the thread.

        If the disk takes longer than STOP seconds, this method stops waiting and returns.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            await asyncio.to_thread(thread.join, STOP)
        self._loop = None

    # The methods below run in the thread

    def _run(self) -> None:
        remove_leftovers(self.path)
        pause = SAVING.shortest
        while not self._stopping.wait(pause):
            # CPU time, so that the file does not grow older because other processes keep the machine busy
            started = time.thread_time()
            self._save()
            pause = SAVING.pause_after(time.thread_time() - started)
        self._save()

    def _save(self) -> None:
        """Write the file if reports have been accepted since the file was last written. Never raises."""
        path, accepted = self.path, self._table.counts["accepted"]
        if self._saved == (path, accepted) or (self._saved is None and not accepted):
            return
        try:
            write(path, self._table.records(time.time()))
        except Exception as error:  # the thread must survive any error, and log it
            why = (error.strerror if isinstance(error, OSError) else "") or repr(error)
            failure = f"{path}: can't be written: {why}"
            if failure != self._failure:
                self._record_later(f"{failure}; after a restart, replays will not be recognised", logging.WARNING)
            self._failure = failure
            return
        self._saved = path, accepted
        if self._failure:
            self._failure = ""
            self._record_later(f"{path}: sequence numbers are saved again", logging.INFO)

    def _record_later(self, text: str, level: int) -> None:
        if loop := self._loop:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._record, text, level)

    def _record(self, text: str, level: int) -> None:
        self._events.record("reports", text, level=level, logger="lbdns.collector")
