"""Programs that are in a web server's way on its own host: they take its processor, or its disk.

All of them end by themselves, should nobody be left to end them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lbdns_tools.lab.lab import Lab

#: Burners on a host. The kernel shares a processor by processes: three leave a quarter to one of Apache's
BURNERS: Final = 3
#: s longer than they are needed, before they end by themselves: a busy machine starts a measurement late
LONGER_S: Final = 60.0
#: What a writer writes over and over again, each time until it is on the disk
BLOCK_KB: Final = 64
BLOCKS: Final = 64  # 4 MB
_BURN: Final = "while :; do :; done"
_WRITE: Final = 'while dd if=/dev/zero of="$0" bs={kb}k count={blocks} conv=fsync 2>/dev/null; do :; done'


def burner_command(seconds: float) -> tuple[str, ...]:
    return ("timeout", f"{seconds:g}", "sh", "-c", _BURN)


def writer_command(seconds: float, file: Path) -> tuple[str, ...]:
    return ("timeout", f"{seconds:g}", "sh", "-c", _WRITE.format(kb=BLOCK_KB, blocks=BLOCKS), str(file))


@contextmanager
def burners(lab: Lab, host: str, seconds: float) -> Iterator[None]:
    """Busy loops under the host's own quota."""
    with ExitStack() as stack:
        for number in range(1, BURNERS + 1):
            running = lab.run_in(host, f"burner{number}-{host}", *burner_command(seconds + LONGER_S), inside_group=True)
            stack.callback(running.stop)
        yield


@contextmanager
def writers(lab: Lab, hosts: Sequence[str], seconds: float) -> Iterator[None]:
    """One that writes and waits for the disk on each of these hosts; its file is below the lab's folder."""
    folder = lab.folder / "writers"
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        for host in hosts:
            file = folder / host
            stack.callback(file.unlink, missing_ok=True)
            command = writer_command(seconds + LONGER_S, file)
            running = lab.run_in(host, f"writer-{host}", *command, inside_group=True)
            stack.callback(running.stop)
        yield


def filesystem(folder: Path, mounts: str = "/proc/self/mounts") -> str:
    """The kind of the one a folder is on: in tmpfs nothing waits for a disk. "" if it can't be known."""
    path = str(folder.resolve())
    best = ("", "")
    try:
        lines = Path(mounts).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        _, point, kind, *_ = line.split(" ")
        # The last of those that are mounted over each other is the one seen
        if (path + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]
