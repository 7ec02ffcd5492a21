"""What several benchmarks need: a port that is free, and percentiles."""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM, address: str = "127.0.0.1") -> int:
    """A port that nobody has just now."""
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind((address, 0))
        port: int = sock.getsockname()[1]
        return port


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` (0 to 1) of the values don't exceed; 0 for no values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
