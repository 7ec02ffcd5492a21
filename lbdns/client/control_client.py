"""Control client: sends commands to a running server through its control socket."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lbdns_shared.errors import LbdnsError

TIMEOUT: Final = 120.0  # seconds: a reload may read zones with a million names, and waits for every worker
CONNECT_TIMEOUT: Final = 10.0  # seconds, while too many clients connect
RETRY: Final = 0.02  # seconds between attempts to connect
MAX_REPLY: Final = 64 * 2**20  # bytes


def send_command(path: Path, command: str, **words: Any) -> Mapping[str, Any]:
    """Send ``command`` to the server whose control socket is at ``path``, and return the reply.

    Raises LbdnsError if the server refuses the command or cannot be reached.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(TIMEOUT)
            _connect(sock, path)
            with contextlib.suppress(BrokenPipeError):  # the server has refused the connection, and its reply says why
                sock.sendall(json.dumps({"command": command, **words}).encode() + b"\n")
            with sock.makefile("rb") as lines:
                line = lines.readline(MAX_REPLY)
        reply = json.loads(line)
        if not isinstance(reply, dict) or type(reply.get("ok")) is not bool:
            raise ValueError("not a reply")
    except OSError as error:
        hint = "Is 'lbdns serve' running with [server] control set to this path?"
        if isinstance(error, PermissionError):
            hint = "Only root, the server's user and members of the server's group may send commands"
        raise LbdnsError(f"{path}: {error.strerror or error}. {hint}") from None
    except ValueError:
        raise LbdnsError(
            f"{path}: the server closed the connection without a valid reply; see the server's log"
        ) from None
    if not reply["ok"]:
        raise LbdnsError(str(reply.get("error", "the server refused the command without giving a reason")))
    return reply


def _connect(sock: socket.socket, path: Path) -> None:
    """Connect to the control socket. If the socket's queue of new connections is full, wait. Raises OSError."""
    end = time.monotonic() + CONNECT_TIMEOUT
    while True:
        try:
            return sock.connect(str(path))
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
            time.sleep(RETRY)
