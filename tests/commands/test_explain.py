"""Tests of ``lbdns explain`` with a small HTTP server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.cells import cell_len

from lbdns.command_line.run_command import run
from lbdns.commands.explain import explain, explanation_lines
from tests.commands.terminal.documents import STARTED, explained, explanation, override
from tests.commands.terminal.stub_server import stub_server


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    exit_status = run(explain, "lbdns explain", arguments)
    captured = capsys.readouterr()
    return exit_status, captured.out, captured.err


@pytest.mark.parametrize("name", ["best.hobbit", "BEST", "round.robin", "a b&c"])
def test_the_server_is_asked_for_the_name_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with stub_server() as server:
        exit_status, out, err = ran(capsys, name, "--url", server.url)
        assert (exit_status, err) == (0, "")
        quoted = name.replace(" ", "+").replace("&", "%26")
        assert server.paths == [f"/api/v1/explain?name={quoted}"]
        assert "next: gandalf, traffic is light: highest score\n" in out
        assert max(map(len, out.splitlines())) <= 80


def test_json_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with stub_server() as server:
        exit_status, out, _ = ran(capsys, "best", "--json", "--url", server.url)
        assert exit_status == 0
        assert json.loads(out) == explanation()


def test_a_name_that_no_pool_is_asked_by(capsys: pytest.CaptureFixture[str]) -> None:
    with stub_server() as server:
        server.documents["/api/v1/explain"] = {
            "error": "no pool serves the name 'bset'. Perhaps you meant 'best.hobbit'?"
        }
        exit_status, out, err = ran(capsys, "bset", "--url", server.url)
        assert (exit_status, out) == (1, "")
        assert err == f"{server.url}: no pool serves the name 'bset'. Perhaps you meant 'best.hobbit'?\n"


@pytest.mark.parametrize("document", [[], {}, {"name": "x"}, "text"])
def test_something_else_answers(document: object, capsys: pytest.CaptureFixture[str]) -> None:
    with stub_server() as server:
        server.documents["/api/v1/explain"] = document
        for arguments in ((), ("--json",)):
            exit_status, out, err = ran(capsys, "best", "--url", server.url, *arguments)
            assert (exit_status, out) == (1, "")
            assert "the response is not from lbdns" in err


def test_without_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    exit_status, _, err = ran(capsys)
    assert exit_status == 2
    assert "Missing argument 'NAME'" in err


def lines_of(document: dict[str, Any]) -> list[str]:
    return [line.plain for line in explanation_lines(document)]


def test_who_is_next_and_why() -> None:
    lines = lines_of(explanation())
    assert lines[:5] == [
        "best.hobbit: pool web, policy best",
        "next: gandalf, traffic is light: highest score",
        "plan: 3 of 64 answers used; next: gandalf, frodo",
        "rates: 0.20 answers/s, 12.0 requests/s, a report every 1 s; ttl 0",
        "score: thesis; capacity: requests/s; light traffic for 18 more answers",
    ]
    assert lines[6].split() == ["member", "chance", "score", "cap", "capacity", "load", "charge", "credit", "age", "s"]
    assert lines[7].split() == ["gandalf", "62%", "66", "50%", "120.0", "1.25", "3.50", "-0.25", "0.4"]
    assert lines[8] == "    score: run_queue 17.6 + cpu_idle 8.3"
    assert lines[9] == "    usable"


@pytest.mark.parametrize(
    ("given", "used"), [(0, "0 of 3 answers used"), (3, "3 of 3 answers used"), (4, "all 3 answers used, now repeated")]
)
def test_a_plan_that_is_repeated_says_so(given: int, used: str) -> None:
    plan = {**explanation()["plan"], "given": given, "length": 3}
    assert f"plan: {used}; next: gandalf, frodo" in lines_of(explanation(plan=plan))


def test_what_is_not_so_usual() -> None:
    lines = lines_of(
        explanation(
            worker=1, workers=4, measured=False, fail_open=True, fail_open_reason="no member is usable",
            requests_per_s=None,
        )
    )  # fmt: skip
    assert lines[0].endswith(", according to worker 1 of 4")
    assert lines[2] == "fail open: no member is usable"
    assert "- requests/s" in lines[4]
    assert "estimated from" in lines[5]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"state": "silent", "reason": "no report for 12 s", "candidate": False},
         "silent; no report for 12 s; is not selected"),
        ({"state": "drained", "reason": "drained by root: new kernel", "candidate": False,
          "overrides": [override(since=STARTED)]},
         "drained; drained by root 1h1min ago: new kernel; is not selected"),
        ({"guard": "ramp 40%", "ramp": 0.4}, "usable; ramp 40%; ramp 0.4"),
        ({"suspect": True}, "usable; its reports are overdue"),
        ({"weight": 0.5, "overrides": [override("weight", factor=0.5, since=STARTED)], "guard": "ramp 40%"},
         "usable; weight 0.5 by root 1h1min ago: new kernel; ramp 40%; weight 0.5"),
    ],
)  # fmt: skip
def test_what_keeps_a_member_from_its_share(changes: dict[str, Any], line: str) -> None:
    assert lines_of(explanation(explained("gandalf", **changes)))[-1] == f"    {line}"


def test_a_member_that_never_reported() -> None:
    unknown = explained("gandalf", state="unknown", reason="has never reported", score=None, score_parts={}, age_s=None)
    lines = lines_of(explanation(unknown))
    assert lines[-2].split()[2] == "-"
    assert lines[-1] == "    unknown; has never reported"


def test_it_fits_80_columns_with_long_names_and_large_figures() -> None:
    parts = {f"a_metric_with_a_long_name_{i}": 1e6 + i for i in range(12)}
    large = {"score": 10**6 - 1, "capacity": 123_456.0, "load": 1234.56, "charge": 9999.99, "credit": -99.99,
             "age_s": 9999.9, "probability": 1.0, "capacity_share": 1.0}  # fmt: skip
    lines = lines_of(
        explanation(explained("a-very-long-name-of-a-web-server.in.some.department", score_parts=parts, **large))
    )
    assert max(map(cell_len, lines)) <= 80
    assert all(any(metric in line for line in lines) for metric in parts)
    assert "a-very-long-name-of-a-web-server.in.some.department" in lines


def test_nothing_steers_the_terminal() -> None:
    nasty = "\x1b[2J\n"
    member = explained(nasty, reason=nasty, guard=nasty, score_parts={nasty: 1.0}, state=nasty)
    document = explanation(member, name=nasty, next=nasty, why=nasty, fail_open=True, fail_open_reason=nasty)
    assert all(line.isprintable() for line in lines_of(document))


@pytest.mark.parametrize(
    "document", [{}, {"name": "x"}, explanation() | {"plan": None}, explanation() | {"members": [1]}]
)
def test_what_is_no_explanation(document: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        lines_of(document)
