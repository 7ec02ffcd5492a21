"""Tests of CSV and JSON results: failures are included, columns documented, and missing results empty or null."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from lbdns_tools.load.capacity_search import FailureCriteria, frontier
from lbdns_tools.load.result_rows import as_csv, as_json, columns, frontier_csv, server_labels
from tests.tools.load.made_up_rows import row

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "load.md"


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_first_columns_are_those_of_1999() -> None:
    assert list(columns(row()))[:6] == [
        "clients",
        "connections_per_s",
        "littles_load_factor",
        "mean_latency_s",
        "error_percent",
        "throughput_mbit_per_s",
    ]


def test_a_line_for_each_point_and_repetition() -> None:
    rows = [row(clients, 500 * clients, repetition=r, failed=0.1) for clients in (1, 2) for r in (1, 2)]
    lines = read(as_csv(rows))
    assert [(line["clients"], line["repetition"]) for line in lines] == [("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")]
    for line, of in zip(lines, rows, strict=True):
        assert float(line["connections_per_s"]) == of.figures.connections_per_s
        assert int(line["errors_timeout"]) == of.figures.failed > 0
        assert int(line["requests"]) == int(line["ok"]) + int(line["errors_timeout"])
        assert float(line["share_198.18.0.1"]) == 0.5
        assert (line["rate_per_s"], line["resolve"], line["keep_alive"]) == ("", "connection", "0")


def test_no_result_is_empty_and_a_server_that_got_nothing_got_0() -> None:
    lines = read(as_csv([row(20, servers=2), row(30, servers=1), row(40, 0)]))
    assert [line["share_198.18.0.2"] for line in lines] == ["0.5", "0", ""]
    assert lines[2]["connections_per_s"] == lines[2]["p99_s"] == lines[2]["error_percent"] == ""
    assert lines[2]["requests"] == "0"


def test_names_with_commas_stay_one_field() -> None:
    assert read(as_csv([row(label='html, "best"', saturated="late, by 3 s")]))[0]["label"] == 'html, "best"'


def test_nothing_is_only_an_empty_line() -> None:
    assert as_csv([]).strip() == ""


def test_every_column_is_documented() -> None:
    text = DOCS.read_text()
    edges = frontier(lambda count, rate: row(rate=rate).figures, FailureCriteria(), (5,), 1.0, 2.0)
    for column in (*columns(row()), *frontier_csv(edges).splitlines()[0].split(","), "share_ADDRESS"):
        name = "errors_CLASS" if column.startswith("errors_") else column
        name = "local_CAUSE" if column.startswith("local_") else name
        assert f"`{name}`" in text, column


def test_the_document_has_everything_and_is_json() -> None:
    rows = [row(20), row(20, 600, repetition=2), row(30, 0)]
    document = json.loads(json.dumps(as_json(rows, ["p99>1ms: is 90 ms"]), allow_nan=False))
    first, second = document["points"]
    assert (first["clients"], first["repetitions"], first["measured"]) == (20, 2, 2)
    assert first["mean"]["requests_per_s"] == 55.0
    assert first["deviation"]["requests_per_s"] > 7
    assert first["runs"][0]["begun"] == 1e9
    assert first["runs"][1]["repetition"] == 2
    assert first["runs"][0]["tally"] == rows[0].tally.state()
    assert second["mean"]["p99_s"] is None
    assert document["failed_thresholds"] == ["p99>1ms: is 90 ms"]
    assert "frontier" not in document


def test_names_have_their_own_key_beside_the_shares() -> None:
    names = {"198.18.0.1": "bilbo.hobbit"}
    (run,) = as_json([row(names=names)])["points"][0]["runs"]
    assert (run["shares"], run["names"]) == ({"198.18.0.1": 0.5, "198.18.0.2": 0.5}, names)


def test_labels_are_names_without_a_domain_where_that_is_enough() -> None:
    first, second = "198.18.0.1", "198.18.0.2"
    assert server_labels([row()]) == {first: first, second: second}
    rows = [row(names={first: "gandalf.hobbit"}), row(names={second: "bilbo.hobbit"})]
    assert list(server_labels(rows).items()) == [(second, "bilbo"), (first, "gandalf")]
    ports = {first: "www.hobbit:80", second: "www.hobbit:81"}
    assert server_labels([row(names=ports)]) == {first: "www:80", second: "www:81"}
    assert server_labels([row(names={first: "www.shire", second: "www.bree"})]) == {
        second: "www.bree",
        first: "www.shire",
    }
    rows = [row(names={first: "gandalf.hobbit"}), row(names={first: "bilbo.hobbit"})]
    assert server_labels(rows)[first] == first, "two names in two runs"


def test_a_frontier_as_data() -> None:
    edges = frontier(
        lambda count, rate: row(requests=0 if rate > 30 else 500).figures, FailureCriteria(), (5, 9), 10.0, 80.0
    )
    (first, second) = read(frontier_csv(edges))
    assert float(first["highest_rate_per_s"]) <= 30
    assert (first["ending"], first["why"], second["connections"]) == ("criteria", "no result", "9")
    nothing = frontier(lambda count, rate: row(requests=0).figures, FailureCriteria(), (5,), 10.0, 80.0)
    assert read(frontier_csv(nothing))[0]["highest_rate_per_s"] == ""
    found = json.loads(json.dumps(as_json([], (), nothing)))["frontier"][0]
    assert (found["highest"], found["ending"], found["figures"]) == (None, "bottom", None)
    assert found["trials"] == [{"value": 10.0, "why": "no result"}] * 2
