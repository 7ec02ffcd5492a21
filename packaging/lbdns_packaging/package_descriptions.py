"""Describes the Debian and RPM packages: names, texts and dependencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lbdns_packaging.debian_releases import DebianRelease


@dataclass(frozen=True)
class PackageDescription:
    """The metadata of a package. ``depends`` maps the format ("deb", "rpm") to the packages that it requires."""

    name: str
    description: str  # the first line is the summary
    depends: Mapping[str, Sequence[str]]
    architecture: str = "all"
    release: str = "1"
    suggests: Sequence[str] = field(default=())


def agent_package() -> PackageDescription:
    """Return the description of the agent's package, the same for Debian and RPM."""
    return PackageDescription(
        "lbdns-agent",
        "Agent that reports the load of a web server to lbdns\n"
        "lbdns is a DNS server that answers with the currently best web server of a farm. The\n"
        "agent runs on every web server. Once a second, it sends the server one small datagram\n"
        "that contains the load of its host.",
        {"deb": ("python3 (>= 3.9)", "python3-msgpack"), "rpm": ("python3 >= 3.9", "python3-msgpack")},
        suggests=("python3-cryptography",),
    )


def server_package(release: DebianRelease, architecture: str) -> PackageDescription:
    """Return the description of the server's package for a Debian release and a processor."""
    return PackageDescription(
        "lbdns",
        "Load-aware authoritative DNS server\n"
        "lbdns answers with the currently best web server of a farm. Agents on the web servers\n"
        "report the load of their hosts. This package contains the server, the collector of the\n"
        "agents' reports, and the compiled fast path, in a separate Python environment.",
        {"deb": (*_python(release), "libc6 (>= 2.17)", "passwd", "systemd | systemd-standalone-sysusers")},
        architecture,
        _release(release),
        suggests=("lbdns-tools", "lbdns-agent"),
    )


def tools_package(release: DebianRelease, version: str) -> PackageDescription:
    """Return the description of the tools' package, which adds files to the environment of the server's package."""
    own = _release(release)
    return PackageDescription(
        "lbdns-tools",
        "Tools for lbdns: load generator, simulator, calibration, scaler and lab\n"
        "lbdns is a DNS server that answers with the currently best web server of a farm. These\n"
        "tools put web servers under load, simulate farms, calibrate scores, and start and stop\n"
        "web servers as the load requires.",
        {"deb": (f"lbdns (= {version}-{own})",)},
        release=own,
    )


def _python(release: DebianRelease) -> tuple[str, str]:
    return f"python3 (>= {release.python}~)", f"python3 (<< {release.next_python}~)"


def _release(release: DebianRelease) -> str:
    """Return the Debian revision, which grows with the release so that an upgrade of Debian upgrades the package."""
    return f"1~deb{release.number}"
