"""Checks that the table of results fits in 100 columns, is complete, and never shows a missing result as 0."""

from __future__ import annotations

import io

from rich.console import Console

from lbdns_tools.load.capacity_search import FailureCriteria, frontier, highest_count
from lbdns_tools.load.result_rows import ResultRow
from lbdns_tools.load.result_table import show, show_searches
from tests.tools.load.made_up_rows import row

WIDTH = 100


def shown(rows: list[ResultRow]) -> list[str]:
    text = io.StringIO()
    show(rows, Console(file=text, width=WIDTH))
    lines = text.getvalue().splitlines()
    assert all(len(line) <= WIDTH for line in lines)
    return lines


def test_webstones_columns_in_100_columns() -> None:
    rows = [row(n, 12_345, repetition=r, failed=0.001) for n in (20, 1401) for r in (1, 2)]
    above, heading, _, first, second, *_ = shown(rows)
    assert above.split() == ["in", "mean", "p50", "p95", "p99", "max", "error"]
    assert heading.split() == ["clients", "conn/s", "progress", *["ms"] * 5, "%", "Mbit/s"]
    assert max(map(len, (heading, first, second))) <= 80
    assert "…" not in heading + first + second  # nothing was cut off
    assert first.split()[0] == "20"
    assert second.split()[0] == "1401"
    assert first.count("±") == 3  # of connections/s, mean and p95


def test_one_repetition_has_no_spread() -> None:
    assert "±" not in "".join(shown([row(20)]))


def test_no_result_is_told_and_no_0() -> None:
    line = next(line for line in shown([row(20), row(30, 0)]) if line.startswith("30"))
    assert "no result" in line
    assert line.split() == ["30", "no", "result", *["-"] * 8]


def test_a_repetition_without_a_result_is_told() -> None:
    assert "20 clients: 1 of 2 repetitions have no result" in shown([row(20), row(20, 0, repetition=2)])


def test_what_failed_and_why() -> None:
    of = row(20, 1000, failed=0.2)
    failed = of.figures.errors["timeout"]
    assert failed > 100
    assert f"20 clients: {failed} of 1000 requests failed: {failed} timeout" in shown([of])


def test_our_own_limit_is_told() -> None:
    lines = shown([row(20, saturated="processors 98 % busy"), row(20, repetition=2)])
    assert "20 clients: the load generator itself was the bottleneck (repetition 1): processors 98 % busy" in lines


def test_shares_only_where_there_are_several_servers() -> None:
    assert not any("Share" in line for line in shown([row(20, servers=1)]))
    lines = shown([row(20, servers=2), row(30, 0)])
    assert lines[-2].split() == ["20", "50.0", "50.0"]
    assert lines[-1].split() == ["30", "no", "result", "-"]


def test_shares_by_name() -> None:
    names = {"198.18.0.1": "gandalf.hobbit", "198.18.0.2": "bilbo.hobbit"}
    heading, _, line = shown([row(20, 501, names=names)])[-3:]
    assert heading.split() == ["clients", "bilbo", "gandalf"]
    assert line.split() == ["20", "49.9", "50.1"]


def test_of_many_servers_the_lowest_and_the_highest_share() -> None:
    names = {f"198.18.0.{number}": f"web{number}.hobbit" for number in range(1, 51)}
    heading, _, line = shown([row(20, 501, servers=50, names=names)])[-3:]
    assert heading.split() == ["clients", "lowest", "highest", "servers"]
    assert line.split() == ["20", "web10:", "2.00", "web1:", "2.20", "50"]


def test_rates_labels_and_kept_connections() -> None:
    lines = shown([row(None, rate=rate, label=label, keep_alive=True) for rate in (400, 800.5) for label in "ab"])
    assert lines[1].split()[:2] == ["rate/s", "req/s"]
    assert [line.split()[:2] for line in lines[3:7]] == [["400", "a"], ["400", "b"], ["800.5", "a"], ["800.5", "b"]]
    assert shown([row(20, label="one"), row(None, rate=5, label="[red]two")])[4].startswith("[red]two")


def test_a_frontier_says_what_ended_each_search() -> None:
    def point(count: int, rate: float) -> ResultRow:
        return row(requests=500, failed=0.5 if rate * count > 4000 else 0.0)

    criteria = FailureCriteria(achieved_share=0.0)
    edges = frontier(lambda count, rate: point(count, rate).figures, criteria, (10, 30, 5000), 100.0, 300.0)
    text = io.StringIO()
    lines = [([str(edge.connections)], edge.found) for edge in edges]
    show_searches(("connections", "highest rate/s"), lines, Console(file=text, width=WIDTH))
    _, _, top, inside, nothing = text.getvalue().splitlines()[:5]
    assert top.split()[:2] == ["10", "300"]
    assert "end of the range" in top
    assert 125 <= float(inside.split()[1]) <= 133
    assert "failed above: 48 % errors" in inside
    assert "no result" in nothing
    assert "failed at the lowest" in nothing


def test_one_search() -> None:
    found = highest_count(lambda count: row(requests=500 if count < 50 else 0).figures, FailureCriteria(), 10.0, 1, 100)
    text = io.StringIO()
    show_searches(("highest clients",), [((), found)], Console(file=text, width=WIDTH))
    assert text.getvalue().splitlines()[2].split()[0] in ("48", "49")
