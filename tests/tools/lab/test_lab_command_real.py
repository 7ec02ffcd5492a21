"""Checks that the lbdns-lab command builds and uses a real farm, and removes every trace of it."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lbdns_tools.lab.machines.leftover_cleanup import REGISTRY
from lbdns_tools.lab.machines.network_namespaces import namespace_of
from lbdns_tools.lab.machines.placed_machine import NAMESPACES
from tests.tools.lab.lab_machines import needs_a_lab

LIMIT_S = 120.0  # a lab is there within seconds; a machine under test may be busy
PROGRAM = (sys.executable, "-m", "lbdns_tools.lab")
FARM = """\
[[host]]
name = "slow"
cpu = 0.1
[[host]]
name = "fast"
cpu = 0.3
"""


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    path = tmp_path / "farm.toml"
    path.write_text(FARM)
    return path


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command. On exit, or at a time limit, SIGTERM ends the command and so makes it remove its lab."""
    with subprocess.Popen(
        [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        limit = threading.Timer(LIMIT_S, process.terminate)
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.terminate()


def nothing_is_left(id: str) -> bool:
    places = (NAMESPACES / namespace_of(id, "client1"), REGISTRY / f"{id}.json", REGISTRY / id)
    return not any(place.exists() for place in places)


@needs_a_lab
def test_a_command_on_a_client(farm: Path) -> None:
    told = subprocess.run(
        [*PROGRAM, "farm", str(farm), "--", "sh", "-c", "cat /etc/resolv.conf; exit 7"],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert (told.returncode, told.stdout.splitlines()[0], told.stderr) == (7, "nameserver 198.18.0.53", "")


@needs_a_lab
def test_a_farm_is_kept_until_ctrl_c(farm: Path) -> None:
    lines: list[str] = []
    with started("farm", str(farm)) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith("Press Ctrl-C"):
                break
        text = "\n".join(lines)
        found = re.search(r"lbdns-([0-9a-f]{6})-client1", text)
        assert found, text
        assert not nothing_is_left(found[1])
        process.send_signal(signal.SIGINT)
        assert (process.wait(LIMIT_S), process.stdout.read()) == (0, "")
    assert nothing_is_left(found[1])
    assert [line.split()[:3] for line in lines[:3]] == [
        ["hub", "hub", "198.18.0.1"], ["dns", "dns", "198.18.0.53"], ["web", "slow", "198.18.1.1"],
    ]  # fmt: skip


@needs_a_lab
def test_a_study_that_is_ended_by_ctrl_c(farm: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--quick", "--farm", str(farm), "--out", str(out), "--seconds", "1", "--warm-up", "0.5")
    with started("webstone", *options, "--selections", "single,alone", "--clients", "2") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if " requests/s, " in line:  # the first that was measured
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(LIMIT_S) == 130, rest
    with (out / "results.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) in (1, 2)  # the second may have been done by then
    assert (lines[0]["selection"], lines[0]["workload"], lines[0]["clients"]) == ("single", "html", "2")
    assert float(lines[0]["throughput_mbit_per_s"]) > 0
    assert json.loads((out / "manifest.json").read_text())["interrupted"] is True
    assert "The study was interrupted" in (out / "index.html").read_text()
