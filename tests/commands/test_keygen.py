"""Tests of ``lbdns keygen``: the printed lines are valid in key files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lbdns.cli import lbdns
from lbdns.command_line.run_command import run
from lbdns_shared.keys import new_master_key, parse_key_file
from lbdns_shared.nkey import read_nkey


def keygen(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(lbdns, "lbdns", ["keygen", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_master_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, first, err = keygen(capsys)
    assert (status, err) == (0, "")
    assert len(parse_key_file(first, "x").masters) == 1
    assert first.count("\n") == 1
    assert keygen(capsys)[1] != first


def test_an_agent_line_of_the_first_master(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    masters = [new_master_key(), new_master_key()]
    path = tmp_path / "report.key"
    path.write_text("\n".join(master.line() for master in masters))
    path.chmod(0o600)
    status, out, err = keygen(capsys, "--agent", "Gandalf.hobbit", "--master", str(path))
    assert (status, err) == (0, "")
    assert parse_key_file(out, "x").agents == (masters[0].agent_key("gandalf.hobbit"),)


def test_a_key_file_others_can_read_is_a_warning_beside_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.key"
    path.write_text(new_master_key().line())
    path.chmod(0o644)
    status, out, err = keygen(capsys, "--agent", "gandalf", "--master", str(path))
    assert status == 0
    assert out.startswith("agent gandalf ")
    assert err.startswith("warning: ")
    assert "chmod 600" in err


def test_an_nkey(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = keygen(capsys, "--nkey")
    assert (status, err) == (0, "")
    path = tmp_path / "gandalf.nk"
    path.write_text(out)
    path.chmod(0o600)
    nkey, warnings = read_nkey(path, "nkey file", "")
    assert out.startswith(f"# public key: {nkey.public_key}\n")
    assert warnings == []
    assert keygen(capsys, "--nkey")[1] != out


def test_an_nkey_needs_a_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    status, out, err = keygen(capsys, "--nkey")
    assert (status, out) == (2, "")
    assert "--nkey: nkeys require the package cryptography; run pip install 'lbdns[nkeys]'" in err


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (["--nkey", "--agent", "gandalf"], "--nkey can't be combined with --agent or --master"),
        (["--nkey", "--master", "x"], "--nkey can't be combined with --agent or --master"),
        (["--agent", "gandalf"], "--agent and --master must be given together"),
        (["--master", "x"], "--agent and --master must be given together"),
        (["--agent", "gandalf", "--master", "/nonexistent/x"], "/nonexistent/x: cannot read the key file"),
        (["--agent", "gan dalf", "--master", "x"], "is not a valid host name"),
        (["--agent", "", "--master", "x"], "is not a valid host name"),
        (["more"], "unexpected extra argument"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: list[str], about: str) -> None:
    status, out, err = keygen(capsys, *arguments)
    assert (status, out) == (2, "")
    assert about in err


def test_a_file_without_a_master(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gandalf.key"
    path.write_text(keygen_agent_line())
    path.chmod(0o600)
    status, out, err = keygen(capsys, "--agent", "frodo", "--master", str(path))
    assert (status, out) == (2, "")
    assert "contains no master key" in err


def keygen_agent_line() -> str:
    key = new_master_key().agent_key("gandalf")
    return f"agent gandalf {key.key_id.hex()} {'A' * 43}=\n"
