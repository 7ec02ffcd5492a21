"""Programs that compete with a web server on its host: CPU burners, disk writers, and shells that compile and search.

Each program exits after a time limit, even if the lab is killed.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

#: Burners per host. The kernel shares CPU time equally, so three burners leave a quarter for an Apache process
BURNERS: Final = 3
#: s; programs exit this long after the planned end, because a busy machine may start a measurement late
LONGER_S: Final = 60.0
#: A writer repeatedly writes BLOCKS blocks of this size and waits until they are on the disk
BLOCK_KB: Final = 64
BLOCKS: Final = 64  # 4 MB
_BURN: Final = "while :; do :; done"
_WRITE: Final = 'while dd if=/dev/zero of="$0" bs={kb}k count={blocks} conv=fsync 2>/dev/null; do :; done'
#: Numbers of shells, as in the 1999 study
SHELLS: Final = (1, 4, 8)
#: The package of Python's standard library that a shell compiles
COMPILED: Final = "email"
# The arguments are the interpreter, the folder for the byte code, the sources to compile and the folder to search. The
# interpreter compiles the sources anew each time (-f). The output of grep is a pipe, because grep ends after the first
# file that contains the word if its output is /dev/null
_SHELL: Final = (
    'while :; do "$0" -I -S -X pycache_prefix="$1" -m compileall -q -f "$2" || exit;'
    ' grep -rlsF --include="*.py" --exclude-dir=site-packages lbdns "$3" | cat > /dev/null; done'
)


def burner_command(seconds: float) -> tuple[str, ...]:
    return ("timeout", f"{seconds:g}", "sh", "-c", _BURN)


def writer_command(seconds: float, file: Path) -> tuple[str, ...]:
    return ("timeout", f"{seconds:g}", "sh", "-c", _WRITE.format(kb=BLOCK_KB, blocks=BLOCKS), str(file))


def shell_command(seconds: float, folder: Path) -> tuple[str, ...]:
    """Return a command that compiles Python sources and searches the standard library again and again.

    The byte code is written to ``folder``.
    """
    library = sysconfig.get_path("stdlib")
    return (
        "timeout",
        f"{seconds:g}",
        "sh",
        "-c",
        _SHELL,
        sys.executable,
        str(folder),
        f"{library}/{COMPILED}",
        library,
    )


@contextmanager
def burners(lab: Lab, host: str, seconds: float) -> Iterator[None]:
    """Run busy loops within the host's CPU quota for the duration of the context."""
    with ExitStack() as stack:
        for number in range(1, BURNERS + 1):
            running = lab.run_in(host, f"burner{number}-{host}", *burner_command(seconds + LONGER_S))
            stack.callback(running.stop)
        yield


@contextmanager
def writers(lab: Lab, hosts: Sequence[str], seconds: float) -> Iterator[None]:
    """Run a disk writer on each of ``hosts`` for the duration of the context. The writers' files are in the lab's
    directory."""
    folder = lab.folder / "writers"
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        for host in hosts:
            file = folder / host
            stack.callback(file.unlink, missing_ok=True)
            running = lab.run_in(host, f"writer-{host}", *writer_command(seconds + LONGER_S, file))
            stack.callback(running.stop)
        yield


@contextmanager
def shells(lab: Lab, host: str, count: int, seconds: float) -> Iterator[None]:
    """Run ``count`` shells that compile and search within the host's CPU quota for the duration of the context. Their
    byte code is in the lab's directory."""
    with ExitStack() as stack:
        for number in range(1, count + 1):
            name = f"shell{number}-{host}"
            folder = lab.folder / "shells" / name
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            running = lab.run_in(host, name, *shell_command(seconds + LONGER_S, folder))
            stack.callback(running.stop)
        yield


def filesystem(folder: Path) -> str:
    """Return the type of the file system that contains ``folder``, such as tmpfs, or "" if it is unknown."""
    path = folder.resolve()
    # Of several mounts on the same point, the last one is visible
    types = {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}
    return next((types[str(point)] for point in (path, *path.parents) if str(point) in types), "")
