"""Tests of making root file systems: what remains if mmdebstrap succeeds, fails or is interrupted."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import lbdns_packaging.root_file_systems as module
from lbdns_packaging.root_file_systems import MirrorError, PackagingError, RootFileSystem, mirror_problem
from tests.agent.web import answer, web_server

ROOT = RootFileSystem("bookworm", ("python3",))


class FakeMmdebstrap:
    """Writes the archive, and then exits with ``status`` or raises ``interruption``."""

    def __init__(self, status: int = 0, interruption: BaseException | None = None) -> None:
        self.status, self.interruption = status, interruption
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        Path(command[-2]).write_text("archive")
        if self.interruption:
            raise self.interruption
        return subprocess.CompletedProcess(command, self.status, "", "E: no mirror")


def use(program: FakeMmdebstrap, monkeypatch: pytest.MonkeyPatch) -> FakeMmdebstrap:
    monkeypatch.setattr(module, "run_program", program)
    monkeypatch.setattr(module, "require_root", lambda: None)
    monkeypatch.setattr(module, "mirror_problem", lambda: "")
    return program


def test_an_archive_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = use(FakeMmdebstrap(), monkeypatch)
    assert ROOT.archive(tmp_path) == ROOT.archive(tmp_path) == tmp_path / f"{ROOT.name}.tar"
    assert [path.name for path in tmp_path.iterdir()] == [f"{ROOT.name}.tar"]
    (command,) = program.commands
    assert command[:2] == ["unshare", "--mount"]
    assert "--include=python3" in command


def test_a_failure_has_mmdebstraps_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(FakeMmdebstrap(status=1), monkeypatch)
    with pytest.raises(PackagingError, match="for bookworm:\nE: no mirror") as raised:
        ROOT.archive(tmp_path)
    assert not isinstance(raised.value, MirrorError)
    assert list(tmp_path.iterdir()) == []


def test_without_a_mirror_the_failure_is_the_mirrors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(FakeMmdebstrap(status=1), monkeypatch)
    monkeypatch.setattr(module, "mirror_problem", lambda: "cannot be reached: no route")
    with pytest.raises(MirrorError, match="E: no mirror\ncannot be reached: no route"):
        ROOT.archive(tmp_path)


@pytest.mark.parametrize(
    ("status", "problem"),
    [("200 OK", ""), ("404 Not Found", ""), ("502 Bad Gateway", "HTTP status 502"), ("garbage", "cannot be reached")],
)
def test_a_mirror_that_answers_can_be_reached(status: str, problem: str) -> None:
    response = status.encode() if status == "garbage" else answer(b"", status)

    def respond(connection: socket.socket, request: bytes) -> None:
        connection.sendall(response)
        connection.close()

    with web_server(respond) as url:
        found = mirror_problem(url)
    assert problem in found
    assert bool(found) == bool(problem)


def test_a_closed_port_cannot_be_reached() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert "cannot be reached: " in mirror_problem(f"http://127.0.0.1:{free.getsockname()[1]}")


def test_an_interruption_leaves_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(FakeMmdebstrap(interruption=KeyboardInterrupt()), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        ROOT.archive(tmp_path)
    assert list(tmp_path.iterdir()) == []
