"""Installs and runs each artefact in a new root file system without a network; the scripts are in packaging/checks."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns_packaging.debian_releases import SERVER_RELEASES
from lbdns_packaging.root_file_systems import PackagingError, RootFileSystem, command_inside

#: Nothing but what the agent's package requires
_AGENT: Final = ("python3", "python3-msgpack")
SERVER_ROOTS: Final = {
    "bookworm": RootFileSystem("bookworm", ("python3-venv", "passwd", "python3-msgpack", "rpm", "systemd")),
    "trixie": RootFileSystem("trixie", ("python3-venv", "passwd", "systemd")),
}
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LONGEST: Final = 600  # seconds for one check on a busy machine


@dataclass(frozen=True)
class InstallCheck:
    """A check: a script, the root file system in which it runs, and the variables that the script gets."""

    script: str
    root: RootFileSystem
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the check: its script, and the release on which it runs."""
        return f"{self.script} on {self.root.release}"


CHECKS: Final = (
    *(InstallCheck("agent_deb", RootFileSystem(release, _AGENT)) for release in ("bullseye", "bookworm", "trixie")),
    *(InstallCheck("agent_zipapp", root) for root in (RootFileSystem("bullseye", _AGENT), SERVER_ROOTS["trixie"])),
    InstallCheck("agent_rpm", SERVER_ROOTS["bookworm"]),
    *(
        InstallCheck("server_deb", SERVER_ROOTS[release.codename], {"RELEASE": str(release.number)})
        for release in SERVER_RELEASES
    ),
    *(
        InstallCheck("wheels", SERVER_ROOTS[release.codename], {"WHEELS": f"{release.codename}-amd64"})
        for release in SERVER_RELEASES
    ),
)


def run_check(check: InstallCheck, source: Path, out: Path, work: Path, version: str) -> None:
    """Run ``check`` on the artefacts in ``out``. Needs root. Raises PackagingError with the script's output."""
    root = check.root.unpack(work / "roots", work / "check-root")
    functions = (source / "packaging" / "checks" / "functions.sh").read_text()
    script = (source / "packaging" / "checks" / f"{check.script}.sh").read_text()
    (root / "check.sh").write_text(functions + script)
    binds = {out: "/dist", source / "packaging" / "etc" / "lbdns" / "lbdns": "/example"}
    if wheels := check.variables.get("WHEELS"):
        binds[work / "wheels" / wheels] = "/wheels"
    command = command_inside(
        root, ["/bin/sh", "-eux", "/check.sh"], binds=binds,
        environment={"VERSION": version, "PATH": _PATH, **check.variables},
    )  # fmt: skip
    try:
        result = subprocess.run(
            command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_LONGEST
        )
    except subprocess.TimeoutExpired as error:
        raise PackagingError(f"{check.name} took longer than {_LONGEST} s:\n{error.stdout!r}") from None
    if result.returncode:
        raise PackagingError(f"{check.name} failed:\n{result.stdout}")
