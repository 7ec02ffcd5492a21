"""net_rx and net_tx: bytes/s received and sent, across all interfaces except loopback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lbdns_agent.sensor import MeasuredHost, MetricValues, Sensor, rate

Traffic = Mapping[bytes, tuple[int, int]]  # interface -> bytes received and sent, since the start
_LOOPBACK: Final = (b"lo", b"lo0")  # on Linux; on macOS and FreeBSD


def parse(text: bytes) -> dict[bytes, tuple[int, int]]:
    """Return the traffic of the interfaces in /proc/net/dev (proc_net_dev(5)). Raises ValueError.

    Before Linux 2.6.37, the kernel printed no space between the colon and a large first number.
    """
    found = {}
    for line in text.splitlines()[2:]:
        name, colon, rest = line.rpartition(b":")
        fields = rest.split()
        name = name.strip()
        if not colon or len(fields) < 9:
            raise ValueError("each line must contain an interface name and 16 numbers")
        if name not in _LOOPBACK:
            found[name] = (int(fields[0]), int(fields[8]))
    return found


def read(host: MeasuredHost) -> Traffic:
    return parse(host.proc.read("net/dev"))


def read_psutil(psutil: Any) -> Traffic:
    counters = {name.encode(): nic for name, nic in psutil.net_io_counters(pernic=True).items()}
    return {name: (nic.bytes_recv, nic.bytes_sent) for name, nic in counters.items() if name not in _LOOPBACK}


def values(before: Traffic | None, now: Traffic, seconds: float) -> MetricValues:
    """Return the total rates of the interfaces that appear in both readings.

    An interface whose counters were reset adds 0 to the totals.
    """
    if before is None or seconds <= 0:
        return {}
    both = [(before[name], traffic) for name, traffic in now.items() if name in before]
    return {
        "net_rx": sum(rate(old[0], new[0], seconds) for old, new in both),
        "net_tx": sum(rate(old[1], new[1], seconds) for old, new in both),
    }


SENSOR: Final = Sensor("/proc/net/dev", read, values, read_psutil=read_psutil)
