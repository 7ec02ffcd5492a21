"""Arranges the files of each package below a folder, at the paths where they will be installed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lbdns_packaging.debian_releases import DebianRelease
from lbdns_packaging.extra_files import stage_extra_files
from lbdns_packaging.server_environment import site_packages, stage_commands, stage_environment, unpack_wheel

AGENT_FOLDER: Final = "usr/lib/lbdns-agent"
#: Own folder on both Debian and RPM systems, so that one package suits every version of Python
_AGENT_COMMAND: Final = f"""\
#!/usr/bin/python3 -I
import sys

sys.path.insert(0, "/{AGENT_FOLDER}")

from lbdns_agent.cli import main

sys.exit(main())
"""


def stage_agent(source: Path, stage: Path) -> None:
    """Lay out the package lbdns-agent from the source tree: modules, the command, and its extra files."""
    for package in ("lbdns_agent", "lbdns_shared"):
        shutil.copytree(source / "agent" / package, stage / AGENT_FOLDER / package)
    command = stage / "usr" / "bin" / "lbdns-agent"
    command.parent.mkdir(parents=True)
    command.write_text(_AGENT_COMMAND)
    command.chmod(0o755)
    stage_extra_files(source, "lbdns-agent", stage)


def stage_server(
    source: Path, stage: Path, release: DebianRelease, wheels: Sequence[Path], dependencies: Sequence[Path]
) -> None:
    """Lay out the package lbdns: the environment with ``wheels`` (the server's is first) and their dependencies."""
    stage_environment(stage, release.python)
    for wheel in (*wheels, *dependencies):
        unpack_wheel(wheel, stage / site_packages(release.python))
    stage_commands(stage, wheels[0])
    stage_extra_files(source, "lbdns", stage)
    shutil.copytree(source / "zones", stage / "usr" / "share" / "doc" / "lbdns" / "examples")


def stage_tools(source: Path, stage: Path, release: DebianRelease, wheel: Path) -> None:
    """Lay out the package lbdns-tools, whose files are added to the server's environment."""
    unpack_wheel(wheel, stage / site_packages(release.python))
    stage_commands(stage, wheel)
    stage_extra_files(source, "lbdns-tools", stage)
