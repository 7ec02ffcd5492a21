"""Tests of the errors of plan, run and status: missing files, and servers that do not respond."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.command_line.run_command import run
from lbdns_tools.free_ports import free_port
from lbdns_tools.scaler.running import run_command
from lbdns_tools.scaler.scaler_command import command

CONFIG = """\
[scaler]
state_dir = "state"
listen = "127.0.0.1:{port}"
[front_end]
url = "http://127.0.0.1:{port}"
[provider]
kind = "processes"
key_file = "report.key"
"""


def errors(capsys: pytest.CaptureFixture[str], status: int, *words: str) -> list[str]:
    """Run a command, and return the lines that it prints on standard error."""
    assert run(command, "lbdns-scaler", list(words)) == status
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("words", "more"), [(["plan"], ""), (["run", "--dry-run"], ""), (["status"], ", or name the scaler with --url")]
)
def test_without_the_default_file_the_error_names_the_option(
    words: list[str], more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "scaler.toml")
    monkeypatch.setattr(run_command, "DEFAULT_FILE", missing)
    found = errors(capsys, 2, *words, "-c", missing)
    assert found == [f"{missing}: the file does not exist; name another file with -c{more}"]


def test_another_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No such file" in errors(capsys, 2, "plan", "-c", str(tmp_path / "x.toml"))[0]


@pytest.mark.parametrize(("name", "program"), [("plan", "lbdns serve"), ("status", "lbdns-scaler run")])
def test_a_server_that_does_not_respond_is_named_once(
    name: str, program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scaler.toml"
    path.write_text(CONFIG.format(port=free_port()))
    (tmp_path / "report.key").touch(0o600)
    (line,) = errors(capsys, 1, name, "-c", str(path))
    assert "no response: Connection refused" in line
    assert f"Is '{program}' running" in line
