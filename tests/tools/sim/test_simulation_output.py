"""Checks that text tables distinguish all scenarios, and never interpret names as markup."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from lbdns_tools.sim.event_engine import simulate
from lbdns_tools.sim.policy_replay import answered, replay
from lbdns_tools.sim.simulation_output import SimulationRow, as_csv, as_json, show, show_backup, show_replay, show_sites
from lbdns_tools.sim.simulation_results import average_runs
from lbdns_tools.sim.simulation_scenario import FARMS, Scenario, ServerSpec, SimulatedClients
from tests.tools.sim.made_up_recordings import record

SHORT = Scenario(FARMS["T3"], "cgi", 0.3, warm_up=1.0, duration=3.0)


def row(scenario: Scenario) -> SimulationRow:
    return SimulationRow(scenario, average_runs([simulate(scenario, "round_robin", seed) for seed in (1, 2)]))


def shown(rows: list[SimulationRow]) -> list[str]:
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
    closed = [row(replace(SHORT, clients=SimulatedClients("closed", count))) for count in (20, 100)]
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


def test_sites_have_a_table_columns_and_a_list() -> None:
    servers = (ServerSpec("a", site="[red]ber"), ServerSpec("b", site="par"))
    rows = [row(replace(SHORT, servers=servers)), row(SHORT)]
    text = io.StringIO()
    show_sites(rows, Console(file=text, width=200))
    heading, first, second, *_ = [line.split() for line in text.getvalue().splitlines()[1:] if "─" not in line]
    assert heading[-6:] == ["ms", "p95", "ms", "failed", "requests", "swings"]
    assert "[red]ber" in first
    assert "par" in second
    document = as_json(rows, (), None, ())
    assert [site["site"] for site in document["cells"][0]["sites"]] == ["[red]ber", "par"]
    assert "sites" not in document["cells"][1]
    assert {"local_par", "failed_par", "p95_ms_[red]ber"} <= set(as_csv(rows).splitlines()[0].split(","))


def test_a_backup_has_a_table_columns_and_an_object() -> None:
    servers = (ServerSpec("a"), ServerSpec("b", backup=True))
    rows = [row(replace(SHORT, servers=servers)), row(SHORT)]
    text = io.StringIO()
    show_backup(rows, Console(file=text, width=200))
    heading, *cells = [line.split() for line in text.getvalue().splitlines()[1:] if "─" not in line and line.strip()]
    assert heading[-4:] == ["requests,", "%", "seconds", "swings"]
    assert len(cells) == 1, "the second farm has no backup"
    document = as_json(rows, (), None, ())
    assert document["cells"][0]["backup"].keys() == {"requests", "seconds", "swings"}
    assert "backup" not in document["cells"][1]
    assert {"backup_requests", "backup_swings"} <= set(as_csv(rows).splitlines()[0].split(","))


def test_the_document_holds_what_there_is() -> None:
    rows = [row(SHORT)]
    assert as_json(rows, (), None, ()).keys() == {"cells"}
    day = record({"a": {}}, 5, (3,))
    document = as_json(rows, ("a note",), answered(day), [replay(day, "best", 3.0, 0.5)])
    assert document["notes"] == ["a note"]
    assert document["replay"]["policies"][0]["timeline"] == {"a": [3] * 5}
    assert document["cells"][0]["seeds"] == 2
