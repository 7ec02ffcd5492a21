"""Tests of dropping root privileges in separate processes: the privileges cannot be regained."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lbdns.process.privileges import become, check_user
from lbdns_shared.errors import ConfigError
from tests.needs import needs

ROOT = Path(__file__).parents[2]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@needs(root=True)
def test_every_id_is_dropped_for_good() -> None:
    status = run(
        "from lbdns.process.privileges import become; become('nobody')\n"
        "print(open('/proc/self/status').read())\n"
        "import os\n"
        "try: os.setuid(0)\n"
        "except PermissionError: print('Back: no')"
    )
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert lines["Uid"].split() == ["65534"] * 4
    assert lines["Gid"].split() == ["65534"] * 4
    assert lines["Groups"].split() == ["65534"]
    assert int(lines["CapEff"], 16) == int(lines["CapPrm"], 16) == 0
    assert lines["Back"].strip() == "no"


@needs(root=True)
def test_without_root_the_user_stays() -> None:
    out = run(
        "import os; from lbdns.process.privileges import become\nos.setuid(1); become('nobody'); print(os.getuid())"
    )
    assert out.split() == ["1"]


@needs(root=True)
def test_nothing_that_is_executed_gains_anything() -> None:
    status = run(
        "import os, subprocess\n"
        "from lbdns.process.privileges import become, limit\n"
        "limit('nobody'); become('nobody')\n"
        "print(subprocess.run(['cat', '/proc/self/status'], capture_output=True, text=True).stdout)"
    )
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(lines[kind], 16) == 0, kind
    assert lines["NoNewPrivs"].strip() == "1"


@needs(root=True)
def test_limits_belong_to_threads_that_are_started_later_too() -> None:
    out = run(
        "import pathlib, threading\n"
        "from lbdns.process.privileges import become, limit\n"
        "limit('nobody')\n"
        "def tell():\n"
        "    go.wait(); print(pathlib.Path(f'/proc/self/task/{threading.get_native_id()}/status').read_text())\n"
        "go = threading.Event(); thread = threading.Thread(target=tell); thread.start()\n"
        "become('nobody'); go.set(); thread.join()"
    )
    lines = dict(line.split(":", 1) for line in out.splitlines() if ":" in line)
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(lines[kind], 16) == 0, kind
    assert lines["Uid"].split() == ["65534"] * 4


@needs(root=True)
def test_without_root_inherited_capabilities_are_given_up() -> None:
    status = run(
        "import os\n"
        "from lbdns.process.prctl import prctl\n"
        "from lbdns.process.privileges import become, limit\n"
        "open('/dev/null', encoding='ascii').close()\n"  # an interpreter in root's home is closed to others
        "prctl(8, 1); os.setuid(1)\n"  # PR_SET_KEEPCAPS: as a service manager with AmbientCapabilities= does
        "before = open('/proc/self/status').read()\n"
        "assert 'CapPrm:\\t0000000000000000' not in before\n"
        "limit(''); become(''); print(open('/proc/self/status').read())"
    )
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(lines[kind], 16) == 0, kind
    assert lines["NoNewPrivs"].strip() == "1"


def test_late_modules_are_imported_ahead() -> None:
    late = run("from lbdns.process.privileges import read_ahead; read_ahead(); import sys; print(*sys.modules)").split()
    assert {"encodings.idna", "prometheus_client", "aiohttp", "lbdns_collector.web.app"} <= set(late)


def test_without_a_user_nothing_changes() -> None:
    before = os.getresuid(), os.getresgid(), os.getgroups()
    become("")
    assert (os.getresuid(), os.getresgid(), os.getgroups()) == before


@pytest.mark.parametrize("user", ["nosuchuser", "no such user", "0"])
def test_an_unknown_user(user: str) -> None:
    with pytest.raises(ConfigError, match=r"\[server\] user: there is no user .*adduser --system"):
        check_user(user)


@pytest.mark.parametrize("user", ["", "root"])
def test_a_known_user(user: str) -> None:
    check_user(user)
