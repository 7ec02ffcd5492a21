"""Lays out the Python environment of the packages lbdns and lbdns-tools, without running the target's Python.

It is an ordinary virtual environment, ``/usr/lib/lbdns``, on top of Debian's Python.
"""

from __future__ import annotations

import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path, PurePosixPath
from typing import Final

from lbdns_packaging.debian_releases import MACHINES, DebianRelease
from lbdns_packaging.program_runs import run_program
from lbdns_packaging.root_file_systems import PackagingError
from lbdns_packaging.source_tree import empty_folder

PREFIX: Final = "usr/lib/lbdns"
_LEGACY_TAGS: Final = ("manylinux2014", "manylinux2010", "manylinux1")
_COMMAND: Final = """\
#!/{prefix}/bin/python3 -I
import sys

from {module} import {function}

if __name__ == "__main__":  # processes that multiprocessing starts import this file
    sys.exit({function}())
"""


def download_dependencies(lock: Path, release: DebianRelease, architecture: str, folder: Path) -> list[Path]:
    """Download the wheels that a lock file names, for one Debian release and processor, to ``folder``; return their
    paths.

    The wheels are checked against the hashes in the lock file. Raises PackagingError.
    """
    empty_folder(folder)
    wanted = folder / "requirements.txt"
    wanted.write_text(without_build_requirements(lock.read_text()))
    machine = MACHINES[architecture]
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(release.glibc, 4, -1)]
    platforms += [f"{tag}_{machine}" for tag in _LEGACY_TAGS]
    short = f"cp{release.python.replace('.', '')}"
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
        "--require-hashes", "--only-binary=:all:", "--implementation=cp", f"--python-version={release.python}",
        f"--abi={short}", "--abi=abi3", "--abi=none", *(f"--platform={name}" for name in platforms),
        "--dest", str(folder), "--requirement", str(wanted),
    ]  # fmt: skip
    result = run_program(command)
    if result.returncode:
        raise PackagingError(f"pip cannot download the dependencies for {release.codename}:\n{result.stderr}")
    return sorted(folder.glob("*.whl"))


def without_build_requirements(lock: str) -> str:
    """Return the text of a lock file without setuptools, which is needed only to build packages."""
    kept, keep = [], True
    for line in lock.splitlines(keepends=True):
        if line[0].isalnum():
            keep = not line.startswith("setuptools==")
        if keep:
            kept.append(line)
    return "".join(kept)


def stage_environment(stage: Path, python: str) -> None:
    """Create the environment for a version of Python, with no packages in it."""
    binaries = stage / PREFIX / "bin"
    binaries.mkdir(parents=True)
    (binaries / "python3").symlink_to(f"/usr/bin/python{python}")
    (binaries / "python").symlink_to("python3")
    (stage / PREFIX / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n"
    )


def site_packages(python: str) -> PurePosixPath:
    """Return the path of the environment's site-packages folder."""
    return PurePosixPath(PREFIX, "lib", f"python{python}", "site-packages")


def unpack_wheel(wheel: Path, target: Path) -> None:
    """Unpack ``wheel`` to the folder ``target``. Raises PackagingError if it contains files for other folders."""
    target.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        if elsewhere := [name for name in archive.namelist() if name.split("/")[0].endswith(".data")]:
            raise PackagingError(
                f"{wheel.name} contains files for other folders, such as {elsewhere[0]}; this is not supported"
            )
        archive.extractall(target)


def stage_commands(stage: Path, wheel: Path) -> list[str]:
    """Write the commands of a wheel into the environment, link them from /usr/bin, and return their names."""
    parser = ConfigParser(delimiters="=")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        parser.read_string(archive.read(name).decode())
    links = stage / "usr" / "bin"
    links.mkdir(parents=True, exist_ok=True)
    (stage / PREFIX / "bin").mkdir(parents=True, exist_ok=True)
    commands = dict(parser["console_scripts"])
    for command, entry in commands.items():
        module, _, function = entry.partition(":")
        path = stage / PREFIX / "bin" / command
        path.write_text(_COMMAND.format(prefix=PREFIX, module=module, function=function))
        path.chmod(0o755)
        (links / command).symlink_to(f"../lib/lbdns/bin/{command}")
    return sorted(commands)
