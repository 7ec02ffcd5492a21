"""``lbdns explain`` against a small HTTP server."""

from __future__ import annotations

import json

import pytest

from lbdns.command_line.run_command import run
from lbdns.commands.explain import explain
from tests.commands.terminal.documents import explanation
from tests.commands.terminal.telling import telling


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    exit_status = run(explain, "lbdns explain", arguments)
    captured = capsys.readouterr()
    return exit_status, captured.out, captured.err


@pytest.mark.parametrize("name", ["best.hobbit", "BEST", "round.robin", "a b&c"])
def test_the_server_is_asked_for_the_name_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with telling() as server:
        exit_status, out, err = ran(capsys, name, "--url", server.url)
        assert (exit_status, err) == (0, "")
        quoted = name.replace(" ", "+").replace("&", "%26")
        assert server.paths == [f"/api/v1/explain?name={quoted}"]
        assert "next: gandalf, traffic is light: highest score\n" in out
        assert max(map(len, out.splitlines())) <= 80


def test_json_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with telling() as server:
        exit_status, out, _ = ran(capsys, "best", "--json", "--url", server.url)
        assert exit_status == 0
        assert json.loads(out) == explanation()


def test_a_name_that_no_pool_is_asked_by(capsys: pytest.CaptureFixture[str]) -> None:
    with telling() as server:
        server.documents["/api/v1/explain"] = {
            "error": "no pool serves the name 'bset'. Perhaps you meant 'best.hobbit'?"
        }
        exit_status, out, err = ran(capsys, "bset", "--url", server.url)
        assert (exit_status, out) == (1, "")
        assert err == f"{server.url}: no pool serves the name 'bset'. Perhaps you meant 'best.hobbit'?\n"


@pytest.mark.parametrize("document", [[], {}, {"name": "x"}, "text"])
def test_something_else_answers(document: object, capsys: pytest.CaptureFixture[str]) -> None:
    with telling() as server:
        server.documents["/api/v1/explain"] = document
        for arguments in ((), ("--json",)):
            exit_status, out, err = ran(capsys, "best", "--url", server.url, *arguments)
            assert (exit_status, out) == (1, "")
            assert "the response is not from lbdns" in err


def test_without_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    exit_status, _, err = ran(capsys)
    assert exit_status == 2
    assert "Missing argument 'NAME'" in err
