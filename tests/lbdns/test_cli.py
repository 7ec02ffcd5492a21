"""Tests of the command line: every command's help, the exit statuses, and the absence of unnecessary imports."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import click
import pytest
from click.testing import CliRunner

from lbdns import __version__
from lbdns.cli import COMMANDS, lbdns
from lbdns.command_line.run_command import INTERRUPTED, run
from lbdns_shared.errors import ConfigError, LbdnsError


@click.command()
@click.argument("what")
def made_up(what: str) -> int | None:
    match what:
        case "fail":
            raise LbdnsError("it broke; mend it")
        case "config":
            raise ConfigError("a.toml:1: x: wrong", "a.toml:2: y: wrong")
        case "interrupt":
            raise KeyboardInterrupt
        case "usage":
            raise click.UsageError("say it otherwise")
        case "status":
            return 3
    return None


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (["well"], 0, ""),
        (["status"], 3, ""),
        (["fail"], 1, "it broke; mend it\n"),
        (["config"], 2, "a.toml:1: x: wrong\na.toml:2: y: wrong\n"),
        (["interrupt"], INTERRUPTED, "\n"),
        ([], 2, "Missing argument 'WHAT'"),
        (["usage"], 2, "say it otherwise"),
        (["--nope"], 2, "No such option"),
        (["--help"], 0, ""),
    ],
)
def test_exit_status_and_message(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, error: str
) -> None:
    assert run(made_up, "made-up", arguments) == status
    err = capsys.readouterr().err
    assert error in err if error else not err
    assert "Traceback" not in err


def test_a_mistake_in_the_program_is_not_hidden() -> None:
    @click.command()
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(broken, "broken", [])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(lbdns, [name, "--help"], prog_name="lbdns")
    assert result.exit_code == 0, result.output
    assert f"lbdns {name}" in result.output.partition("Usage:")[2].partition("\n")[2], "an example"


def test_the_list_of_commands() -> None:
    result = CliRunner().invoke(lbdns, ["--help"])
    assert result.exit_code == 0
    for name, help in COMMANDS.items():
        assert name in result.output
        assert help.split()[0] in result.output
    assert CliRunner().invoke(lbdns, ["sreve"]).exit_code == 2


@pytest.mark.parametrize("arguments", [["-m", "lbdns", "--version"], ["-c", "from lbdns.cli import main; main()"]])
def test_the_program_runs(arguments: list[str]) -> None:
    result = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=60)
    if "--version" in arguments:
        assert result.returncode == 0
        first, second = result.stdout.splitlines()
        assert first == f"lbdns {__version__}"
        assert second == f"native extension: {'installed' if find_spec('lbdns_native') else 'not installed'}"
    else:
        assert result.returncode == 2
        assert "Usage: lbdns" in result.stdout + result.stderr


def test_version_and_help_import_nothing_heavy() -> None:
    code = (
        "import sys; from lbdns.cli import lbdns; from lbdns.command_line.run_command import run\n"
        "assert run(lbdns, 'lbdns', ['--help']) == 0\n"
        "heavy = {'dns', 'aiohttp', 'asyncio', 'rich', 'cryptography', 'msgpack'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
