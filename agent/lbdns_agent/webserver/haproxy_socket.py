"""Asks HAProxy for its statistics over its socket, without blocking the agent."""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.non_blocking_sensors import ReadingSteps
from lbdns_agent.read_to_end import read_to_end
from lbdns_agent.webserver.status_page import TIMEOUT

COMMAND: Final = b"show stat\n"
_ADVICE: Final = {
    errno.ENOENT: "add 'stats socket {path} mode 660 level user' to the section 'global' of haproxy.cfg",
    errno.EACCES: "add the agent's user to the group of the socket",
    errno.ECONNREFUSED: "check that HAProxy is running",
}


def show_statistics(path: str, largest: int) -> ReadingSteps[bytes]:
    """Return HAProxy's reply to ``show stat``, of at most ``largest`` bytes. Raises MissingValueError."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.setblocking(False)
            if code := connection.connect_ex(path):  # a Unix socket connects at once, or its queue is full (EAGAIN)
                raise OSError(code, os.strerror(code))
            connection.send(COMMAND)  # the buffer of a new connection has room for it
            return (yield from read_to_end(connection.fileno(), largest))
    except TimeoutError:
        raise MissingValueError(f"{path}: no complete response within {TIMEOUT:g} s") from None
    except OverflowError:
        raise MissingValueError(f"{path}: the response is larger than {largest // 1024} KiB") from None
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0)
        what = error.strerror or error
        raise MissingValueError(f"{path}: {what}{f'; {advice.format(path=path)}' if advice else ''}") from None
