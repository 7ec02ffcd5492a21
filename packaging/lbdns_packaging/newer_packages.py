"""Makes newer versions of the server's package from the package that was built, for upgrades under load."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.process.state_format import FORMAT
from lbdns_packaging.root_file_systems import PackagingError
from lbdns_packaging.source_tree import empty_folder


@dataclass(frozen=True)
class NewerPackage:
    """A newer version: the name of its file, the upstream version, the Debian revision, and its state format."""

    name: str
    version: str
    revision: str
    state_format: int = FORMAT


def newer_packages(version: str) -> tuple[NewerPackage, ...]:
    """Return the two newer versions to make from ``version``: one with the same state format, one with another state
    format."""
    newer = f"{version}+newer"
    return NewerPackage("newer.deb", newer, "1"), NewerPackage("other-format.deb", newer, "2", FORMAT + 1)


def make_newer_packages(package: Path, folder: Path, version: str) -> list[Path]:
    """Write the newer versions of ``package`` to the new folder ``folder``, and return the files.

    Only the numbers differ. Raises PackagingError if the package does not contain them.
    """
    empty_folder(folder)
    tree = folder / "tree"
    made = []
    for newer in newer_packages(version):
        subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
        renumber(tree, newer, version)
        made.append(folder / newer.name)
        command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(made[-1])]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        empty_folder(tree)
    tree.rmdir()
    return made


#: Each number: the file, and a pattern whose group is the number
_MODULES: Final = "usr/lib/lbdns/lib/python3.*/site-packages"
_DEBIAN_VERSION: Final = ("DEBIAN/control", r"(?m)^Version: (.+)$")
_VERSION: Final = r'(?m)^__version__ = "(.+)"$'
_STATE_FORMATS: Final = (
    (f"{_MODULES}/lbdns/process/state_format.py", r"(?m)^FORMAT: Final = (\d+)$"), ("DEBIAN/preinst", r" -gt (\d+) "),
)  # fmt: skip


def renumber(tree: Path, newer: NewerPackage, version: str) -> None:
    """Replace the version numbers and the state format in the unpacked package ``tree``, whose version is ``version``.
    Raises PackagingError."""
    _replace(tree, *_DEBIAN_VERSION, f"{version}-1~", f"{newer.version}-{newer.revision}~")
    for package in ("lbdns", "lbdns_shared"):
        _replace(tree, f"{_MODULES}/{package}/__init__.py", _VERSION, version, newer.version)
    for place in _STATE_FORMATS:
        _replace(tree, *place, str(FORMAT), str(newer.state_format))


def _replace(tree: Path, where: str, pattern: str, old: str, new: str) -> None:
    for path in tree.glob(where):
        text = path.read_text()
        if (found := re.search(pattern, text)) and old in found[1]:
            path.write_text(text[: found.start(1)] + found[1].replace(old, new) + text[found.end(1) :])
            return
    raise PackagingError(f"the package has no file {where} with the number {old}")
