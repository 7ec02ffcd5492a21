"""Makes Debian root file systems with mmdebstrap, keeps them as archives, and runs commands in unpacked copies."""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from lbdns_packaging.program_runs import run_program
from lbdns_packaging.source_tree import empty_folder

MIRROR: Final = "http://deb.debian.org/debian"
_MIRROR_LIMIT: Final = 30.0  # seconds in which the mirror must answer
_RETRIES: Final = 5  # of each download
_PROGRAMS: Final = ("mmdebstrap", "systemd-nspawn")


class PackagingError(Exception):
    """Something that the build needs is missing; the message says what to do."""


class MirrorError(PackagingError):
    """Debian's mirror cannot be reached, which says nothing about lbdns."""


@dataclass(frozen=True)
class RootFileSystem:
    """A root file system: its Debian release, packages and processor architectures, and mmdebstrap's variant."""

    release: str
    packages: tuple[str, ...]
    architectures: tuple[str, ...] = ("amd64",)
    variant: str = "apt"  # of mmdebstrap

    @property
    def name(self) -> str:
        """The name of the archive; root file systems with different contents have different names."""
        contents = repr((self.release, self.packages, self.architectures, self.variant))
        return f"{self.release}-{sha256(contents.encode()).hexdigest()[:10]}"

    def unpack(self, cache: Path, folder: Path) -> Path:
        """Unpack the root file system to the new folder ``folder``. If ``cache`` does not contain its archive, make it.

        Needs root. Raises PackagingError, which is a MirrorError if Debian's mirror cannot be reached.
        """
        archive = self.archive(cache)
        empty_folder(folder)
        subprocess.run(["tar", "--extract", "--file", archive, "--directory", folder], check=True)
        return folder

    def archive(self, cache: Path) -> Path:
        """Return the path of the archive in ``cache``; if the archive is missing, make it. Needs root. Raises
        PackagingError as ``unpack`` does."""
        archive = cache / f"{self.name}.tar"
        if not archive.exists():
            self._make(archive)
        return archive

    def _make(self, archive: Path) -> None:
        require_root()
        archive.parent.mkdir(parents=True, exist_ok=True)
        unfinished = archive.with_name(f"unfinished-{os.getpid()}-{archive.name}")
        command = [
            # What mmdebstrap mounts disappears with its processes, even if they are killed
            "unshare", "--mount", "--propagation", "private", "--",
            "mmdebstrap", "--quiet", f"--variant={self.variant}", f"--include={','.join(self.packages)}",
            f"--aptopt=Acquire::Retries {_RETRIES};",
            f"--architectures={','.join(self.architectures)}", self.release, str(unfinished), MIRROR,
        ]  # fmt: skip
        print(f"creating a root file system for {self.release} with {', '.join(self.packages)} ...", flush=True)
        try:
            result = run_program(command)
            if result.returncode:
                message = f"mmdebstrap cannot create a root file system for {self.release}:\n{result.stderr}"
                if reason := mirror_problem():
                    raise MirrorError(f"{message}\n{reason}")
                raise PackagingError(message)
            unfinished.rename(archive)
        finally:
            unfinished.unlink(missing_ok=True)


def mirror_problem(mirror: str = MIRROR, limit: float = _MIRROR_LIMIT) -> str:
    """Return why Debian's mirror cannot be reached, or an empty string if it answers.

    mmdebstrap does not say whether a download failed. A mirror that refuses a request (HTTP status 4xx) answers.
    """
    try:
        with urllib.request.urlopen(f"{mirror}/dists/stable/Release", timeout=limit):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"{mirror}: HTTP status {error.code}" if error.code >= 500 else ""
    except (OSError, http.client.HTTPException) as error:
        return f"{mirror} cannot be reached: {error}"


def require_root() -> None:
    """Raise PackagingError unless this process may make and enter root file systems."""
    if os.geteuid() != 0:
        raise PackagingError("creating a root file system of Debian requires root privileges; run make as root")
    if missing := [program for program in _PROGRAMS if not shutil.which(program)]:
        raise PackagingError(f"{' and '.join(missing)} not found: run 'make deps-packaging' as root")


def command_inside(
    folder: Path,
    command: Sequence[str],
    *,
    network: bool = False,
    binds: Mapping[Path, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the command that runs ``command`` in the root file system ``folder``.

    ``binds`` maps the host's folders and files to the paths at which ``command`` sees them. If ``network`` is false,
    ``command`` has only a loopback interface.
    """
    return [
        "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--as-pid2", "--console=pipe",
        "--timezone=off", f"--directory={folder}",
        *(["--resolv-conf=replace-host"] if network else ["--resolv-conf=off", "--private-network"]),
        *(f"--bind={outside}:{inside}" for outside, inside in (binds or {}).items()),
        *(f"--setenv={name}={value}" for name, value in (environment or {}).items()),
        "--", *command,
    ]  # fmt: skip
