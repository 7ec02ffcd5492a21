"""A network namespace for a test. Sockets opened in the namespace can be used from outside."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from tests.needs import program

T = TypeVar("T")
_CLONE_NEWNET: Final = 0x40000000


class Namespace:
    def __init__(self, pid: int) -> None:
        self._pid = pid

    def within(self, function: Callable[[], T]) -> T:
        """Call ``function`` in the namespace, so that the sockets that it opens belong to the namespace."""
        result: list[T] = []
        thread = threading.Thread(target=lambda: result.append(self._enter(function)))
        thread.start()
        thread.join()
        return result[0]

    def _enter(self, function: Callable[[], T]) -> T:
        libc = ctypes.CDLL(None, use_errno=True)
        handle = os.open(f"/proc/{self._pid}/ns/net", os.O_RDONLY)
        try:
            if libc.setns(handle, _CLONE_NEWNET):  # this thread alone, which ends afterwards
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(handle)
        return function()


@contextmanager
def namespace(*addresses: str) -> Iterator[Namespace]:
    """Create a namespace with these additional addresses on its loopback. Needs root."""
    script = "ip link set lo up; " + "".join(f"ip address add {a} dev lo nodad; " for a in addresses) + "echo; exec cat"
    with subprocess.Popen(
        [program("unshare"), "--net", "sh", "-ec", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        try:
            yield Namespace(holder.pid)
        finally:
            holder.stdin.close()  # cat ends, and the namespace with it
