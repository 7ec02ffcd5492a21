"""Tests of the newer versions of the server's package that the check of upgrades installs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lbdns.process.state_format import FORMAT
from lbdns_packaging.newer_packages import make_newer_packages
from lbdns_packaging.root_file_systems import PackagingError
from tests.needs import needs

MODULES = "usr/lib/lbdns/lib/python3.11/site-packages"
FILES = {
    "DEBIAN/control": "Package: lbdns\nVersion: {version}-1~deb12\nArchitecture: amd64\nMaintainer: A <a@b.c>\n"
    "Description: a\n",
    "DEBIAN/preinst": "#!/bin/sh\nif [ 1 -gt {format} ]; then exit 1; fi\n",
    f"{MODULES}/lbdns/__init__.py": '"""The server."""\n\n__version__ = "{version}"\n',
    f"{MODULES}/lbdns_shared/__init__.py": '"""Shared."""\n\n__version__ = "{version}"\n',
    f"{MODULES}/lbdns/process/state_format.py": "# A number\nFORMAT: Final = {format}\n",
    "etc/lbdns/lbdns.toml": "{version} {format}\n",
}


def write_tree(tree: Path, version: str, state_format: int) -> None:
    for name, text in FILES.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(version=version, format=state_format))
    (tree / "DEBIAN/preinst").chmod(0o755)


def build(tree: Path, package: Path) -> Path:
    subprocess.run(["dpkg-deb", "--build", tree, package], check=True, stdout=subprocess.DEVNULL)
    return package


@needs(programs=("dpkg-deb",))
def test_only_the_numbers_differ(tmp_path: Path) -> None:
    write_tree(tmp_path / "tree", "1.2.3", FORMAT)
    package = build(tmp_path / "tree", tmp_path / "old.deb")
    made = make_newer_packages(package, tmp_path / "new", "1.2.3")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(path.name for path in made)
    for path, revision, state_format in zip(made, (1, 2), (FORMAT, FORMAT + 1), strict=True):
        tree = tmp_path / path.stem
        subprocess.run(["dpkg-deb", "--raw-extract", path, tree], check=True)
        write_tree(tmp_path / "expected", "1.2.3+newer", state_format)
        for name in FILES:
            expected = (tmp_path / "expected" / name).read_text()
            if name == "DEBIAN/control":
                expected = expected.replace("-1~", f"-{revision}~")
            elif name.startswith("etc"):
                expected = f"1.2.3 {FORMAT}\n"
            assert (tree / name).read_text() == expected
        command = ["dpkg", "--compare-versions", f"1.2.3+newer-{revision}~deb12", "gt", "1.2.3-1~deb12"]
        subprocess.run(command, check=True)


@needs(programs=("dpkg-deb",))
@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("etc")])
def test_a_package_without_a_number_is_an_error(name: str, tmp_path: Path) -> None:
    write_tree(tmp_path / "tree", "1.2.3", FORMAT)
    path = tmp_path / "tree" / name
    path.write_text(
        path.read_text().replace("1.2.3", "1.2.4").replace(f" -gt {FORMAT}", "").replace("FORMAT", "NUMBER")
    )
    package = build(tmp_path / "tree", tmp_path / "old.deb")
    with pytest.raises(PackagingError, match=r"the package has no file .* with the number"):
        make_newer_packages(package, tmp_path / "new", "1.2.3")
