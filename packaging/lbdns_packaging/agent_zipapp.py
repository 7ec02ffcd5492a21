"""Builds lbdns-agent.pyz: the agent in one file, which every Python since 3.9 runs.

It contains msgpack without its compiled part: msgpack then uses its implementation in Python, which is fast enough for
one report a second.
"""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from lbdns_packaging.archives import zip_bytes

ZIPAPP: Final = "lbdns-agent.pyz"
_START: Final = b"#!/usr/bin/env python3\n"
_PACKAGES: Final = ("lbdns_agent", "lbdns_shared")


def build_agent_zipapp(source: Path, out: Path, epoch: int) -> Path:
    """Build the file from the folder ``agent`` of ``source``, and return its path in ``out``.

    msgpack is taken from the environment that runs this program, where the lock file decides its version.
    """
    agent = source / "agent"
    files = {path.relative_to(agent).as_posix(): path.read_bytes() for path in _modules(agent)}
    files |= msgpack_files()
    files["__main__.py"] = files["lbdns_agent/__main__.py"]
    files["LICENSE"] = (agent / "LICENSE").read_bytes()
    path = out / ZIPAPP
    path.write_bytes(_START + zip_bytes(dict(sorted(files.items())), epoch))
    path.chmod(0o755)
    return path


def msgpack_files() -> dict[str, bytes]:
    """Return msgpack's Python modules and its licence: name in the archive -> content."""
    installed = distribution("msgpack")
    files = {}
    for file in installed.files or ():
        if file.parts[0] == "msgpack" and file.suffix == ".py":
            files[file.as_posix()] = file.locate().read_bytes()  # type: ignore[attr-defined]
        elif file.name in ("COPYING", "LICENSE"):
            files["msgpack/LICENSE"] = file.locate().read_bytes()  # type: ignore[attr-defined]
    assert "msgpack/fallback.py" in files, "msgpack must contain an implementation in pure Python"
    return files


def _modules(agent: Path) -> list[Path]:
    return [path for package in _PACKAGES for path in (agent / package).rglob("*.py")]
