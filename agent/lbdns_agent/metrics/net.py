"""net_rx and net_tx: bytes/s over all interfaces but the loopback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lbdns_agent.host import Host
from lbdns_agent.sensor import Sensor, Values, rate

Traffic = Mapping[bytes, tuple[int, int]]  # interface -> bytes received and sent, since the start


def parse(text: bytes) -> dict[bytes, tuple[int, int]]:
    """The interfaces of a /proc/net/dev but lo (proc_net_dev(5)). Raises ValueError.

    Before Linux 2.6.37 a large first number touches the colon.
    """
    found = {}
    for line in text.splitlines()[2:]:
        name, colon, rest = line.rpartition(b":")
        fields = rest.split()
        name = name.strip()
        if not colon or len(fields) < 9:
            raise ValueError("no /proc/net/dev: a line has no interface, or not its 16 numbers")
        if name != b"lo":
            found[name] = (int(fields[0]), int(fields[8]))
    return found


def read(host: Host) -> Traffic:
    return parse(host.proc.read("net/dev"))


def values(before: Traffic | None, now: Traffic, seconds: float) -> Values:
    """Since ``before``, over the interfaces that were there; one that was reset counts nothing this round."""
    if before is None or seconds <= 0:
        return {}
    both = [(before[name], traffic) for name, traffic in now.items() if name in before]
    return {
        "net_rx": sum(rate(old[0], new[0], seconds) for old, new in both),
        "net_tx": sum(rate(old[1], new[1], seconds) for old, new in both),
    }


SENSOR: Final = Sensor("/proc/net/dev", read, values)
