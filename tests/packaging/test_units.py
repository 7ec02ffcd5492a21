"""Tests of the systemd units in the packages: valid, hardened, started with options that the programs accept."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner

import lbdns.cli
import lbdns_collector.cli
from lbdns_agent.cli import build_parser
from lbdns_tools.scaler import scaler_command
from tests.needs import needs, program

PACKAGING: Final = Path(__file__).parents[2] / "packaging"
UNITS: Final = sorted((PACKAGING / "systemd").glob("*/*"))
SERVICES: Final = [path for path in UNITS if path.suffix == ".service"]
COMMANDS: Final[dict[str, click.Command]] = {
    "lbdns": lbdns.cli.lbdns, "lbdns-collector": lbdns_collector.cli.command, "lbdns-scaler": scaler_command.command,
}  # fmt: skip
MOST_EXPOSED: Final = 20  # tenths of a point of 'systemd-analyze security'

one_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
one_service = pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)


def values(unit: Path, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", unit.read_text(), re.MULTILINE)


def test_every_program_that_runs_all_the_time_has_a_unit() -> None:
    assert [f"{unit.parent.name}/{unit.name}" for unit in UNITS] == [
        "lbdns/lbdns-collector.service", "lbdns/lbdns.service", "lbdns/lbdns.socket",
        "lbdns-agent/lbdns-agent.service", "lbdns-tools/lbdns-scaler.service",
    ]  # fmt: skip


@one_unit
def test_a_preset_says_whether_it_starts_at_boot(unit: Path) -> None:
    (preset,) = (PACKAGING / "presets" / unit.parent.name).iterdir()
    assert len(re.findall(rf"^(?:enable|disable) {re.escape(unit.name)}$", preset.read_text(), re.MULTILINE)) == 1


@needs(programs=("systemd-analyze",))
@one_unit
def test_systemd_understands_it(unit: Path, tmp_path: Path) -> None:
    for each in unit.parent.iterdir():  # a socket needs its service
        text = re.sub(r"^(Exec\w+=)/usr/bin/lbdns\S*", r"\1/bin/true", each.read_text(), flags=re.MULTILINE)
        (tmp_path / each.name).write_text(text)
    command = [program("systemd-analyze"), "verify", "--man=no", "--recursive-errors=no", str(tmp_path / unit.name)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


@needs(programs=("systemd-analyze",))
@one_service
def test_it_is_hardened(service: Path) -> None:
    command = [program("systemd-analyze"), "security", "--offline=yes", f"--threshold={MOST_EXPOSED}", str(service)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Overall exposure level" in result.stdout
    assert result.returncode == 0, result.stdout


@one_service
def test_it_is_restarted_unless_its_configuration_is_wrong(service: Path) -> None:
    expected = {"Type": "notify", "Restart": "always", "RestartPreventExitStatus": "2"}
    assert {key: values(service, key) for key in expected} == {key: [value] for key, value in expected.items()}
    (watchdog,) = values(service, "WatchdogSec")
    assert int(watchdog) >= 10, "the server needs time to replace a worker that hangs"


@pytest.mark.parametrize("name", ["lbdns.service", "lbdns-collector.service"])
def test_the_room_for_sockets_is_told_to_the_program(name: str) -> None:
    service = PACKAGING / "systemd" / "lbdns" / name
    (room,) = values(service, "FileDescriptorStoreMax")
    assert values(service, "Environment") == [f"FDSTORE={room}"]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(shlex.split(command), id=f"{service.name}-{number}")
        for service in SERVICES
        for number, command in enumerate(values(service, "ExecStart") + values(service, "ExecReload"))
    ],
)
def test_the_programs_accept_their_options(command: Sequence[str]) -> None:
    name, arguments = Path(command[0]).name, [word for word in command[1:] if word != "$LBDNS_AGENT_OPTIONS"]
    if name == "lbdns-agent":
        assert build_parser().parse_args(arguments).key_file
    elif name in COMMANDS:
        result = CliRunner().invoke(COMMANDS[name], [*arguments, "--help"])  # unknown options come first
        assert result.exit_code == 0, result.output
        assert CliRunner().invoke(COMMANDS[name], [*arguments, "--nonsense", "--help"]).exit_code == 2
    else:
        assert command == ["kill", "-HUP", "$MAINPID"]
