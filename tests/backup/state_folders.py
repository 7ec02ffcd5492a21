"""State directories for tests, with files of every kind, and archives of them."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lbdns.backup.archive_writer import MANIFEST_NAME, STATE_PREFIX, write_archive
from lbdns.backup.manifest import Manifest
from lbdns.config.recording_sections import HistoryConfig
from lbdns.history.history_recorder import HistoryRecorder
from tests.history.history_samples import fill, sample

NOW: Final = 1_800_000_000.0  # 2027-01-15T08:00:00Z
ZONES: Final = ("hobbit",)
SMALL_FILES: Final = {
    "overrides.json": (b'{"overrides": []}\n', 0o600),
    "joined.json": (b'{"members": []}\n', 0o644),
    "report-sequences": (b"\x82\xa7version\x01\xa5hosts\x00", 0o600),
}


def make_state(folder: Path, mark: bytes = b"") -> Path:
    """Return a new state directory below ``folder``. ``mark`` is appended to the content of every small file."""
    state = folder / "state"
    state.mkdir(parents=True)
    for name, (content, mode) in SMALL_FILES.items():
        (state / name).write_bytes(content + mark)
        (state / name).chmod(mode)
    return state


def record_history(state: Path, seconds: int = 30) -> None:
    fill(HistoryRecorder(state / "history.db", HistoryConfig()), [sample(second) for second in range(seconds)])


def archive_of(state: Path, history: bool = True) -> tuple[bytes, Manifest]:
    scratch = state.with_name(f"{state.name}.scratch")
    scratch.mkdir(exist_ok=True)
    target = io.BytesIO()
    manifest = write_archive(state, target, scratch, ZONES, NOW, history)
    return target.getvalue(), manifest


def content_of(state: Path) -> dict[str, bytes]:
    """Return the content of every file below a state directory except the lock file, by its path there."""
    return {
        str(path.relative_to(state)): path.read_bytes()
        for path in sorted(state.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def entries_of(archive: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        found = []
        for entry in tar:
            content = tar.extractfile(entry)
            found.append((entry, content.read() if content else b""))
        return found


def packed(entries: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """Return an archive with these entries."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        for entry, content in entries:
            tar.addfile(entry, io.BytesIO(content))
    return target.getvalue()


def manifest_entry(data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(MANIFEST_NAME)
    entry.size = len(data)
    return entry, data


def file_entry(name: str, data: bytes, prefix: str = STATE_PREFIX) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(prefix + name)
    entry.size = len(data)
    return entry, data


def with_bomb(size: int) -> bytes:
    """Return an archive whose first entry declares ``size`` bytes."""
    entry = tarfile.TarInfo(MANIFEST_NAME)
    entry.size = size
    return gzip.compress(entry.tobuf(tarfile.GNU_FORMAT))
