"""A scaler as a program: its lock, and what it releases. tests/end_to_end/test_scaler.py runs it with real servers."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.running.scaler_program import ScalerProgram
from lbdns_tools.scaler.settings.scaler_settings import ScalerSettings, load_settings


def settings(folder: Path) -> ScalerSettings:
    path = folder / "scaler.toml"
    path.write_text('[scaler]\nstate_dir = "state"\n[provider]\nkind = "processes"\nkey_file = "report.key"\n')
    return load_settings(path)


async def test_a_directory_is_for_one_scaler_at_a_time(tmp_path: Path) -> None:
    first = ScalerProgram(settings(tmp_path))
    with pytest.raises(LbdnsError, match="another lbdns-scaler is using this directory"):
        ScalerProgram(settings(tmp_path))
    await ScalerProgram(settings(tmp_path), dry_run=True).close()
    await first.close()
    await ScalerProgram(settings(tmp_path)).close()


async def test_a_directory_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(LbdnsError, match=r"\[scaler\] state_dir: .*/state: cannot be locked: No locks available"):
        ScalerProgram(settings(tmp_path))


async def test_a_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(LbdnsError, match=r"\[scaler\] state_dir: .*/state: File exists"):
        ScalerProgram(settings(tmp_path))
