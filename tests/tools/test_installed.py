"""Programs that may not be installed are looked for, and what brings them is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.errors import LbdnsError
from lbdns_tools import installed


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """One of PATH and one of the system's."""
    found = tmp_path / "bin", tmp_path / "sbin"
    for folder in found:
        folder.mkdir()
    monkeypatch.setenv("PATH", str(found[0]))
    monkeypatch.setattr(installed, "_SYSTEM_FOLDERS", str(found[1]))
    return found


def test_path_comes_first_then_the_folders_of_the_system(folders: tuple[Path, Path]) -> None:
    for folder in reversed(folders):
        assert not (folder / "unbound").exists()
        (folder / "unbound").touch(0o755)
        assert installed.path_of("unbound") == installed.find("unbound") == str(folder / "unbound")
        assert installed.is_there("unbound")


def test_what_is_not_there(folders: tuple[Path, Path]) -> None:
    assert not installed.is_there("unbound")
    with pytest.raises(LbdnsError, match=f"unbound: not found in PATH nor in {folders[1]}; `make deps-lab` as root"):
        installed.path_of("unbound")
