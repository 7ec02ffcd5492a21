"""Makes a package of a newer version from a built one, to show an upgrade."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from lbdns_packaging.root_file_systems import PackagingError
from lbdns_packaging.source_tree import empty_folder

#: Larger than the version of every package that is built from the same source
SUFFIX: Final = "+newer"


def make_newer_package(package: Path, folder: Path) -> tuple[Path, str]:
    """Write a copy of the Debian package with a newer version to the new folder ``folder``.

    The programs in it print the newer version too. Returns the file, and this version. Raises PackagingError.
    """
    tree = empty_folder(folder) / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True, capture_output=True, text=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(newer_control(control.read_text()))
    (module,) = tree.glob("usr/lib/lbdns/lib/python3*/site-packages/lbdns_shared/__init__.py")
    text, count = re.subn(r'^__version__ = "(.+)"$', rf'__version__ = "\1{SUFFIX}"', module.read_text(), flags=re.M)
    if count != 1:
        raise PackagingError(f"{package.name}: {module.relative_to(tree)} has {count} lines with the version, not one")
    module.write_text(text)
    newer = folder / package.name.replace("-1~", f"{SUFFIX}-1~")
    # Fast compression, since the file is used once
    command = ["dpkg-deb", "--build", "-Zgzip", "-z1", "--root-owner-group", str(tree), str(newer)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    subprocess.run(["rm", "-rf", tree], check=False)
    found = re.search(r'^__version__ = "(.+)"$', text, re.M)
    assert found, "the line has just been written"
    return newer, found[1]


def newer_control(control: str) -> str:
    """Return the text of a package's control file with a newer version. Raises PackagingError."""
    text, count = re.subn(r"^(Version: [^-\n]+)", rf"\g<1>{SUFFIX}", control, flags=re.M)
    if count != 1:
        raise PackagingError(f"the control file has {count} lines with a version, not one:\n{control}")
    return text
