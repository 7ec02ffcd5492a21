"""Checks that the XDP program is built into a copy of the source tree, or that the missing compiler is named."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from lbdns_packaging.python_wheels import build_distribution
from lbdns_packaging.root_file_systems import PackagingError
from lbdns_packaging.source_tree import copy_source, source_date_epoch
from lbdns_packaging.xdp_program import build_xdp_program
from tests.needs import needs


@needs(programs=("clang",))
def test_the_wheel_contains_the_program_and_is_the_same_each_time(tmp_path: Path) -> None:
    epoch = source_date_epoch()
    found = []
    for name in ("one", "two"):
        source = copy_source(tmp_path / name)
        build_xdp_program(source, epoch)
        out = tmp_path / f"{name}.out"
        out.mkdir()
        wheel = build_distribution(source, out, "wheel", epoch)
        with zipfile.ZipFile(wheel) as archive:
            assert archive.read("lbdns/server/xdp/answers.o").startswith(b"\x7fELF")
        found.append(wheel.read_bytes())
    assert found[0] == found[1]


def test_without_clang_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PackagingError, match="needs clang: run 'make deps-packaging' as root"):
        build_xdp_program(tmp_path, 0)
