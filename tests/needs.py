"""What tests require of the machine: a mark that declares the requirements, and the code that checks them.

``@needs(programs=("apache2", "ab"), root=True)`` skips the test if a requirement is missing, with a reason that names
the command that would provide it. With CI=true in the environment, the test fails instead, because a machine that must
run all tests must not skip a test silently.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

MARK: Final = "needs"
#: Every reason begins so; the summary at the end of a run collects them by it.
REASON_PREFIX: Final = "needs "
_XDP_OBJECT: Final = Path(__file__).parents[1] / "lbdns" / "server" / "xdp" / "answers.o"
#: Servers and tools of the administrator live where an ordinary user's PATH doesn't look.
_SYSTEM_FOLDERS: Final = f"/usr/sbin:/sbin:{Path.home() / '.cargo' / 'bin'}"


@dataclass(frozen=True)
class Need:
    """A requirement of a test, and the command that provides it."""

    what: str
    command: str
    optional: bool = False  # left out also where nothing else may be: what the product is whole without

    @property
    def reason(self) -> str:
        return f"{REASON_PREFIX}{self.what}: {self.command}"


def needs(
    *,
    programs: Sequence[str] = (),
    root: bool = False,
    namespaces: bool = False,
    ipv6: bool = False,
    cpu_groups: bool = False,
    native: bool = False,
    fuzzer: bool = False,
    xdp: bool = False,
) -> pytest.MarkDecorator:
    """Return a mark that declares the programs that a test runs, and the test's other requirements.

    ``ipv6`` is the IPv6 loopback, ``cpu_groups`` are control groups with a CPU quota (version 1), and ``fuzzer`` is
    a coverage-guided fuzzer. ``xdp`` is the XDP program, and the capabilities to load it.
    """
    return pytest.mark.needs(
        *programs, root=root, namespaces=namespaces, ipv6=ipv6, cpu_groups=cpu_groups, native=native, fuzzer=fuzzer,
        xdp=xdp,
    )  # fmt: skip


def program(name: str) -> str:
    """Return the path of a program, found in PATH or in the system folders. Raises FileNotFoundError."""
    found = _which(name)
    if not found:
        raise FileNotFoundError(f"{name}: run `make deps-debian` as root")
    return found


def missing(
    *,
    programs: Sequence[str] = (),
    root: bool = False,
    namespaces: bool = False,
    ipv6: bool = False,
    cpu_groups: bool = False,
    native: bool = False,
    fuzzer: bool = False,
    xdp: bool = False,
) -> list[Need]:
    """Return the requirements that this machine does not meet, programs first."""
    found = [Need(name, "run `make deps-debian` as root") for name in programs if not _which(name)]
    is_root = os.geteuid() == 0
    if (root or namespaces or cpu_groups) and not is_root:
        found.append(Need("root", "run `make test` as root"))
    if namespaces and is_root and not _can_unshare():
        found.append(Need("network namespaces", "run `make test` with CAP_SYS_ADMIN and CAP_NET_ADMIN"))
    if cpu_groups and is_root and not _has_cpu_groups():
        found.append(Need("/sys/fs/cgroup/cpu", "run `make test` where version 1 of the cpu controller can be written"))
    if native and not _has_native():
        found.append(
            Need(
                "the native extension of this version",
                "run `make native`, which needs cargo",
                optional=not _which("cargo"),
            )
        )
    if fuzzer and not importlib.util.find_spec("atheris"):
        found.append(Need("atheris", "run `.venv/bin/pip install atheris`", optional=True))
    if xdp and not _XDP_OBJECT.exists():
        found.append(Need("the XDP program", "run `make xdp`, which needs clang", optional=not _which("clang")))
    if xdp and not _can_load_programs():
        how = "run `make test` as root with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, where the kernel permits it"
        found.append(Need("bpf(2)", how, optional=True))
    if ipv6 and not _has_ipv6_loopback():
        found.append(Need("IPv6 on the loopback", "run `sysctl net.ipv6.conf.lo.disable_ipv6=0` as root"))
    return found


def nothing_may_be_skipped(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether this test run must not skip tests."""
    return environment.get("CI", "").lower() in ("true", "1")


def _which(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_FOLDERS}")


@cache
def _can_unshare() -> bool:
    unshare = _which("unshare")
    if not unshare:
        return False
    return subprocess.run([unshare, "--net", "true"], check=False, capture_output=True).returncode == 0


@cache
def _has_ipv6_loopback() -> bool:
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as interfaces:
            return any(line.split()[0] == f"{1:032x}" for line in interfaces)
    except OSError:
        return False


@cache
def _has_cpu_groups() -> bool:
    folders = ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct")
    return all(os.access(folder, os.W_OK) and os.path.exists(f"{folder}/cgroup.procs") for folder in folders)


@cache
def _can_load_programs() -> bool:
    from lbdns.server.xdp import bpf_calls  # the agent's tests run where only the agent is installed

    array = bpf_calls.MapDefinition(2, 4, 8, 1, 0)
    try:
        os.close(bpf_calls.create_map("lbdns_test", array))
    except OSError:
        return False
    return True


@cache
def _has_native() -> bool:
    from lbdns.answering.plane import AVAILABLE  # the agent's tests run where only the agent is installed

    return AVAILABLE
