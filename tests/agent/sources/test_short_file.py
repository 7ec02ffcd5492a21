"""Files with a metric."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.sources.metric_definition import FileSource
from lbdns_agent.sources.short_file import LARGEST, read_short_file


def test_the_content(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"7\n" * 100_000)
    assert read_short_file(FileSource(str(tmp_path / "x"), 60.0)) == b"7\n" * 100_000


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(bytes(LARGEST + 1))
    (tmp_path / "old").write_text("7")
    os.utime(tmp_path / "old", (0, time.time() - 100))
    for name, error in {
        "absent": "No such file or directory",
        "": "not a regular file",
        "pipe": "not a regular file",
        "large": "larger than 1024 KiB",
        "old": "last modified 100 s ago, which is more than max-age = 60",
    }.items():
        path = str(tmp_path / name) if name else str(tmp_path)
        with pytest.raises(MissingValueError, match=error):
            read_short_file(FileSource(path, 60.0))
    assert read_short_file(FileSource(str(tmp_path / "old"))) == b"7"
