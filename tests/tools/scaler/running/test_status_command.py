"""``lbdns-scaler status``: its text, its JSON, and answers that are not a scaler's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lbdns.command_line.run_command import run
from lbdns_tools.scaler.scaler_command import command
from tests.client.http_servers import answering, server
from tests.collector.web.fake_scaler import scaler_status


def status(*words: str) -> int:
    return run(command, "lbdns-scaler", ["status", *words])


def test_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    document = scaler_status()
    with server(answering(200, json.dumps(document).encode())) as url:
        assert status("--url", url) == 0
        assert capsys.readouterr().out.startswith("farm web: 1 wanted, 1 starting, 4 in service (minimum 1, maximum 8")
        assert status("--url", url, "--json") == 0
        assert json.loads(capsys.readouterr().out) == document


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", json.dumps(scaler_status(counts=[1])).encode()])
def test_other_answers_are_errors(body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with server(answering(200, body)) as url:
        assert status("--url", url) == 1
    assert f"{url}: the response is not from lbdns-scaler" in capsys.readouterr().err


def test_a_scaler_without_http(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scaler.toml"
    path.write_text('[scaler]\nlisten = "off"\n[provider]\nkind = "processes"\nkey_file = "report.key"\n')
    assert status("-c", str(path)) == 2
    assert '[scaler] listen is "off", so the scaler has no HTTP address' in capsys.readouterr().err
