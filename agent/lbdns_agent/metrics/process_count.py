"""process_count: the number of processes on the host, without threads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from lbdns_agent.sensor import MeasuredHost, Sensor, newest_value


def parse(names: Iterable[str]) -> int:
    """Return the number of processes among the names in /proc: each process has a directory named by its ID."""
    return sum(name.isdigit() for name in names)


def read(host: MeasuredHost) -> int:
    return parse(os.listdir(host.proc.root))


def read_psutil(psutil: Any) -> int:
    return len(psutil.pids())


SENSOR: Final = Sensor("/proc", read, newest_value("process_count"), read_psutil=read_psutil)
