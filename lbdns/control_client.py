"""Giving a running server an order through its control socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lbdns.errors import LbdnsError

TIMEOUT: Final = 120.0  # s: a reload reads zones of a million names and waits for every worker
MAX_ANSWER: Final = 64 * 2**20  # bytes


def order(path: Path, command: str, **words: Any) -> Mapping[str, Any]:
    """What the server at ``path`` answers. Raises LbdnsError when it refuses, or nobody is there."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(TIMEOUT)
            sock.connect(str(path))
            sock.sendall(json.dumps({"command": command, **words}).encode() + b"\n")
            with sock.makefile("rb") as lines:
                line = lines.readline(MAX_ANSWER)
        answer = json.loads(line)
        if not isinstance(answer, dict) or type(answer.get("ok")) is not bool:
            raise ValueError("no answer")
    except OSError as error:
        why = error.strerror or str(error)
        if isinstance(error, PermissionError):
            raise LbdnsError(f"{path}: {why}. Orders are taken from root and the server's user and group") from None
        raise LbdnsError(f"{path}: {why}. Is 'lbdns serve' running, with [server] control there?") from None
    except ValueError:
        raise LbdnsError(f"{path}: the server ended before it answered; see its log") from None
    if not answer["ok"]:
        raise LbdnsError(str(answer.get("error", "the server refused and gave no reason")))
    return answer
