"""Tests of ``lbdns reload`` with sockets that reply like a server."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lbdns.cli import lbdns
from lbdns.command_line.run_command import run

CONFIG = """\
[server]
control = "control.sock"
state_dir = "state"
[[zone]]
name = "hobbit"
file = "hobbit.zone"
"""


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[list[dict[str, Any]]]:
    """Answer one command on a control socket, and yield the list of received commands."""
    orders: list[dict[str, Any]] = []
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        sock.listen()
        sock.settimeout(60)

        def serve() -> None:
            client, _ = sock.accept()
            with client, client.makefile("rb") as lines:
                orders.append(json.loads(lines.readline()))
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield orders
        finally:
            thread.join(60)


def reload(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(lbdns, "lbdns", ["reload", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "lbdns.toml"
    path.write_text(CONFIG)
    return path


@pytest.mark.parametrize("named", ["config", "control"])
def test_what_is_in_force_is_printed(config: Path, capsys: pytest.CaptureFixture[str], named: str) -> None:
    socket_path = config.parent / "control.sock"
    with answering(socket_path, b'{"ok": true, "message": "lbdns.toml: in force"}\n') as orders:
        where = ["-c", str(config)] if named == "config" else ["--control", str(socket_path)]
        assert reload(capsys, *where) == (0, "lbdns.toml: in force\n", "")
    assert orders == [{"command": "reload"}]


def test_what_is_wrong_is_printed_line_by_line(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = "lbdns.toml:1: one\nlbdns.toml:2: two"
    with answering(config.parent / "control.sock", json.dumps({"ok": False, "error": error}).encode() + b"\n"):
        assert reload(capsys, "-c", str(config)) == (1, "", f"{error}\n")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400\n", b"[]\n", b'{"ok": 1}\n'])
def test_what_is_no_answer(config: Path, capsys: pytest.CaptureFixture[str], answer: bytes) -> None:
    with answering(config.parent / "control.sock", answer):
        status, out, err = reload(capsys, "-c", str(config))
    assert (status, out) == (1, "")
    assert "the server closed the connection without a valid reply" in err


def test_nobody_there(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = reload(capsys, "-c", str(config))
    assert status == 1
    assert f"{config.parent / 'control.sock'}: No such file" in err


def test_a_configuration_that_is_bad_is_told_at_once(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(CONFIG + "[sever]\n")
    status, _, err = reload(capsys, "-c", str(config))
    assert status == 2
    assert "Perhaps you meant 'server'?" in err


def test_the_server_reads_a_configuration_with_errors_elsewhere(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG + "[cookies]\nlifetme = 1\n")
    with answering(config.parent / "control.sock", b'{"ok": false, "error": "all errors"}\n') as orders:
        assert reload(capsys, "-c", str(config)) == (1, "", "all errors\n")
    assert orders == [{"command": "reload"}]
