"""Tests of the layout of the server's environment."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from lbdns_packaging.root_file_systems import PackagingError
from lbdns_packaging.server_environment import (
    stage_commands,
    stage_environment,
    unpack_wheel,
    without_build_requirements,
)  # fmt: skip

ROOT = Path(__file__).parents[2]


def wheel(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), content)
    return path


def test_only_setuptools_is_taken_out_of_the_lock() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    rest = without_build_requirements(lock)
    pins = re.findall(r"^(\S+)==", lock, re.MULTILINE)
    assert [name for name in pins if name != "setuptools"] == re.findall(r"^(\S+)==", rest, re.MULTILINE)
    assert 0 < rest.count("--hash") < lock.count("--hash")


def test_the_environment_uses_debians_python(tmp_path: Path) -> None:
    stage_environment(tmp_path, "3.13")
    assert (tmp_path / "usr/lib/lbdns/bin/python3").readlink() == Path("/usr/bin/python3.13")
    assert "home = /usr/bin\n" in (tmp_path / "usr/lib/lbdns/pyvenv.cfg").read_text()


def test_commands_are_scripts_with_links(tmp_path: Path) -> None:
    entry = "[console_scripts]\nlbdns = lbdns.cli:main\n"
    path = wheel(tmp_path / "w.whl", **{"lbdns-1_dot_dist-info__entry_points_dot_txt": entry})
    assert stage_commands(tmp_path / "stage", path) == ["lbdns"]
    command = tmp_path / "stage" / "usr" / "bin" / "lbdns"
    assert command.resolve() == tmp_path / "stage" / "usr" / "lib" / "lbdns" / "bin" / "lbdns"
    assert command.read_text().startswith("#!/usr/lib/lbdns/bin/python3 -I\n")
    assert "from lbdns.cli import main\n" in command.read_text()
    assert command.stat().st_mode & 0o111
    guarded = command.read_text().partition('if __name__ == "__main__":')[2]
    assert "sys.exit(main())" in guarded, "processes started by multiprocessing import the command"


def test_a_wheel_with_files_for_other_folders_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path / "w.whl", **{"x_dot_py": "", "x-1_dot_data__scripts__x": ""})
    with pytest.raises(PackagingError, match=r"w\.whl contains files for other folders, such as x-1\.data/scripts/x"):
        unpack_wheel(path, tmp_path / "out")
