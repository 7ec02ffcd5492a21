"""A service manager for tests: keeps the sockets that a program stores, and passes them to the program's next run."""

from __future__ import annotations

import array
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

#: Moves the descriptors in argv[1] to 3, 4, ... and becomes the program in the other arguments
_LAUNCHER: Final = """
import os, sys
high = [os.dup2(int(text), 900 + place) for place, text in enumerate(filter(None, sys.argv[1].split(",")))]
for place, descriptor in enumerate(high):
    os.dup2(descriptor, 3 + place, inheritable=True)
os.closerange(3 + len(high), 900 + len(high))
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
_LONGEST: Final = 4096  # bytes of a message


class FakeServiceManager:
    """Receives the messages of one program, in ``folder``. The caller must call ``close``."""

    def __init__(self, folder: Path, room: int = 64) -> None:
        self._address = str(folder / "notify")
        self._room = room
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.bind(self._address)
        self._sock.settimeout(60)
        self.environment = {"NOTIFY_SOCKET": self._address, "FDSTORE": str(room)}
        self.stored: dict[str, socket.socket] = {}
        self.states: list[str] = []  # all messages except those about stored sockets

    def receive(self) -> str:
        """Wait for the next message, act on it, and return it. Raises TimeoutError."""
        data, ancillary, _, _ = self._sock.recvmsg(_LONGEST, socket.CMSG_SPACE(array.array("i").itemsize))
        descriptors = array.array("i")
        for _, _, payload in ancillary:
            descriptors.frombytes(payload)
        text = data.decode()
        fields = dict(line.split("=", 1) for line in text.splitlines())
        if "FDSTORE" in fields:
            (descriptor,) = descriptors
            assert fields["FDNAME"] not in self.stored, "stored twice"
            self.stored[fields["FDNAME"]] = socket.socket(fileno=descriptor)
        elif "FDSTOREREMOVE" in fields:
            self.stored.pop(fields["FDNAME"]).close()
        else:
            self.states.append(text)
        return text

    def receive_until(self, state: str) -> None:
        """Handle messages up to and including the next one that begins with ``state``."""
        while not self.receive().startswith(state):
            pass

    def start(self, arguments: Sequence[str], pass_sockets: bool = True) -> subprocess.Popen[bytes]:
        """Start ``python ARGUMENTS``, as the service manager does: with the stored sockets."""
        descriptors = [sock.fileno() for sock in self.stored.values()] if pass_sockets else []
        environment = {
            **os.environ, **self.environment,
            "LISTEN_FDS": str(len(descriptors)), "LISTEN_FDNAMES": ":".join(self.stored),
        }  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, ",".join(map(str, descriptors)), *arguments],
            env=environment, pass_fds=descriptors, cwd=Path(__file__).parents[2],
        )  # fmt: skip

    def close(self) -> None:
        self._sock.close()
        for sock in self.stored.values():
            sock.close()
