"""Tables for people: every scenario told apart, and nothing in a name taken for markup."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from lbdns_tools.sim.engine import run
from lbdns_tools.sim.farms import FARMS
from lbdns_tools.sim.output import Row, as_csv, as_json, show, show_replay
from lbdns_tools.sim.progress import progress
from lbdns_tools.sim.replay import answered, replay
from lbdns_tools.sim.results import cell
from lbdns_tools.sim.runner import Job
from lbdns_tools.sim.scenario import Clients, Scenario, ServerSpec
from tests.tools.sim.records import record

SHORT = Scenario(FARMS["T3"], "cgi", 0.3, warm_up=1.0, duration=3.0)


def row(scenario: Scenario) -> Row:
    return Row(scenario, cell([run(scenario, "round_robin", seed) for seed in (1, 2)]))


def shown(rows: list[Row]) -> list[str]:
    text = io.StringIO()
    show(rows, Console(file=text, width=200))
    return text.getvalue().splitlines()


def test_only_what_differs_has_a_column() -> None:
    heading, *_ = shown([row(SHORT)])
    assert all(word not in heading for word in ("load", "workload", "clients", "servers", "dns", "loss"))
    heading, *_ = shown([row(SHORT), row(replace(SHORT, loss=0.1, servers=FARMS["U10"]))])
    assert "loss" in heading
    assert "servers" in heading
    assert "clients" not in heading


def test_names_are_no_markup() -> None:
    closed = [row(replace(SHORT, clients=Clients("closed", count))) for count in (20, 100)]
    assert any("closed:100:5" in line for line in shown(closed))  # :100: is an emoji otherwise
    odd = row(replace(SHORT, servers=(ServerSpec("[red]a"), ServerSpec("b"))))
    assert as_csv([odd]).splitlines()[0].endswith("share_[red]a,share_b")
    text = io.StringIO()
    day = record({"[red]a": {}, "b": {}}, 5, (3, 1))
    show_replay(answered(day), [replay(day, "round_robin", 3.0, 0.5)], Console(file=text, width=200))
    assert "[red]a" in text.getvalue()


def test_shares_of_many_servers_are_a_range() -> None:
    assert any(
        " 10 to 10 " in line for line in shown([row(replace(SHORT, servers=FARMS["U10"], load=0.9, duration=20.0))])
    )


def test_the_document_holds_what_there_is() -> None:
    rows = [row(SHORT)]
    assert as_json(rows, (), None, ()).keys() == {"cells"}
    day = record({"a": {}}, 5, (3,))
    document = as_json(rows, ("a note",), answered(day), [replay(day, "best", 3.0, 0.5)])
    assert document["notes"] == ["a note"]
    assert document["replay"]["policies"][0]["timeline"] == {"a": [3] * 5}
    assert document["cells"][0]["seeds"] == 2


def test_progress_is_quiet_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(2) as on_done:
        on_done(Job(SHORT, "best", 1))
    assert capsys.readouterr().err == ""


def test_progress_is_on_standard_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with progress(1) as on_done:
        on_done(Job(SHORT, "best", 7))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1/1" in captured.err
    assert "best, seed 7" in captured.err
