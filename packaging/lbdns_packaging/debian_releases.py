"""The Debian releases and the processors for which there are packages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class DebianRelease:
    """A Debian release: its code name, its number, and its versions of Python and the C library."""

    codename: str
    number: int
    python: str  # the version of /usr/bin/python3, such as "3.11"
    glibc: int  # the minor version of glibc 2

    @property
    def next_python(self) -> str:
        """The first version of Python that is too new for this release's packages."""
        major, _, minor = self.python.partition(".")
        return f"{major}.{int(minor) + 1}"


#: The server needs Python 3.11. The agent's package also installs on Debian 11.
SERVER_RELEASES: Final = (DebianRelease("bookworm", 12, "3.11", 36), DebianRelease("trixie", 13, "3.13", 41))
#: Debian's name of a processor -> the name that Python uses
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
