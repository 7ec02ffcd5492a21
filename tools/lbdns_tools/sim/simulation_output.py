"""Prints simulation results as a table, CSV or JSON, with one row per scenario and policy."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lbdns_tools.sim.policy_replay import ReplayedPolicy
from lbdns_tools.sim.scenario_parsers import clients_text
from lbdns_tools.sim.simulation_results import BACKUP_FIGURES, FIGURES, SITE_FIGURES, SeedAverage
from lbdns_tools.sim.simulation_scenario import Scenario, ServerSpec
from lbdns_tools.sim.simulation_study import load_of

FEW_SERVERS: Final = 4  # number of shares that fit next to the other columns in a terminal


def server_text(server: ServerSpec) -> str:
    """Return a server as --servers accepts it."""
    quota = f"/{server.quota:g}" if server.quota else ""
    return f"{server.name}={server.speed:.4g}x{server.cores:g}{quota}"


@dataclass(frozen=True, slots=True)
class SimulationRow:
    scenario: Scenario
    cell: SeedAverage

    def labels(self) -> dict[str, Any]:
        """Return the settings that identify the scenario in JSON and CSV."""
        scenario = self.scenario
        return {
            "servers": ",".join(server_text(server) for server in scenario.servers),
            "workload": scenario.workload,
            "load": load_of(scenario),
            "rate_per_s": scenario.rate,
            "clients": clients_text(scenario.clients),
            "interval": scenario.interval,
            "loss": scenario.loss,
            "dns_servers": scenario.dns_servers,
            "score": scenario.score,
        }

    def as_json(self) -> dict[str, Any]:
        cell = asdict(self.cell)
        for key in ("sites", "backup"):
            if not cell[key]:
                del cell[key]
        return {"policy": self.cell.policy, "seeds": self.cell.seeds} | cell | self.labels()

    def columns(self) -> dict[str, float]:
        """Return the shares of the servers and the results of the sites as columns of CSV."""
        shares = {f"share_{name}": share for name, share in self.cell.shares.items()}
        backup = {f"backup_{name}": getattr(self.cell.backup, name) for name in BACKUP_FIGURES if self.cell.backup}
        return (
            shares
            | backup
            | {f"{name}_{site.site}": getattr(site, name) for site in self.cell.sites for name in SITE_FIGURES}
        )


def as_json(
    rows: Sequence[SimulationRow], notes: Sequence[str], real: ReplayedPolicy | None, replays: Sequence[ReplayedPolicy]
) -> dict[str, Any]:
    """Return the results as the document that --json prints."""
    document: dict[str, Any] = {"cells": [row.as_json() for row in rows]}
    if notes:
        document["notes"] = list(notes)
    if replays:
        policies = [replayed.as_json() for replayed in replays]
        document["replay"] = {"answered": real.as_json() if real else None, "policies": policies}
    return document


def as_csv(rows: Sequence[SimulationRow]) -> str:
    """Return the rows as CSV with one share column for each server, and a column for each figure of each site."""
    more = dict.fromkeys(name for row in rows for name in row.columns())
    columns = ["policy", *rows[0].labels(), "seeds", *FIGURES, *more]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.as_json() | row.columns() for row in rows)
    return text.getvalue()


def show(rows: Sequence[SimulationRow], console: Console) -> None:
    """Print a table of policies and results, with the settings that differ between scenarios."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    varying = _varying(rows)
    for heading in (*dict(varying), "policy"):
        table.add_column(heading, no_wrap=True)
    for heading in ("mean ms", "p50 ms", "p95 ms", "p99 ms", "done/s", "failed", "requests"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("shares, %", justify="right")
    before: list[str] | None = None
    for row in rows:
        texts = [text_of(row) for _, text_of in varying]
        if before is not None and before != texts:
            table.add_section()
        cell = row.cell
        table.add_row(
            *([""] * len(texts) if texts == before else map(Text, texts)),
            Text(cell.policy),
            *map(_short, (cell.mean_ms, cell.p50_ms, cell.p95_ms, cell.p99_ms)),
            _short(cell.throughput_per_s),
            f"{cell.failed:.4g}",
            f"{cell.requests:.0f}",
            _shares(cell.shares),
        )
        before = texts
    console.print(table)


def show_sites(rows: Sequence[SimulationRow], console: Console) -> None:
    """Print a table of the results of the clients near each site."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    table.title, table.title_justify, table.title_style = "Clients by the site near them", "left", ""
    varying = _varying(rows)
    for heading in (*dict(varying), "policy", "site"):
        table.add_column(heading, no_wrap=True)
    for heading in ("local, %", "mean ms", "p95 ms", "failed", "requests", "swings"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        for number, site in enumerate(row.cell.sites):
            labels = [*(text_of(row) for _, text_of in varying), row.cell.policy]
            table.add_row(
                *map(Text, [""] * len(labels) if number else labels),
                Text(site.site),
                f"{100 * site.local:.0f}",
                _short(site.mean_ms),
                _short(site.p95_ms),
                f"{site.failed:.4g}",
                f"{site.requests:.0f}",
                f"{site.swings:.1f}",
            )
        table.add_section()
    console.print(table)


def show_backup(rows: Sequence[SimulationRow], console: Console) -> None:
    """Print a table of how much each policy uses the backup."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    table.title, table.title_justify, table.title_style = "Use of the backup", "left", ""
    varying = _varying(rows)
    for heading in (*dict(varying), "policy"):
        table.add_column(heading, no_wrap=True)
    for heading in ("requests, %", "seconds", "swings"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        labels = [*(text_of(row) for _, text_of in varying), row.cell.policy]
        if use := row.cell.backup:
            figures = f"{100 * use.requests:.1f}", f"{use.seconds:.0f}", f"{use.swings:.1f}"
            table.add_row(*map(Text, labels), *figures)
    console.print(table)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def _varying(rows: Sequence[SimulationRow]) -> list[tuple[str, Callable[[SimulationRow], str]]]:
    """Return the columns that differ between rows. Each column is a pair of a heading and a function that returns a
    cell's text."""
    columns: Mapping[str, Callable[[SimulationRow], str]] = {
        "servers": lambda row: f"{len(row.scenario.servers)} of {row.scenario.capacity:.3g}",  # number, and capacity
        "workload": lambda row: row.scenario.workload,
        "load": lambda row: "-" if (load := load_of(row.scenario)) is None else f"{load:.3g}",
        "clients": lambda row: clients_text(row.scenario.clients),
        "loss": lambda row: f"{row.scenario.loss:g}",
        "dns": lambda row: str(row.scenario.dns_servers),
    }
    return [(name, text_of) for name, text_of in columns.items() if len({text_of(row) for row in rows}) > 1]


def _shares(shares: Mapping[str, float]) -> str:
    percent = [100 * share for share in shares.values()]
    if len(percent) > FEW_SERVERS:
        return f"{min(percent):.0f} to {max(percent):.0f}"
    return " ".join(f"{share:.0f}" for share in percent)


def show_replay(real: ReplayedPolicy | None, replays: Sequence[ReplayedPolicy], console: Console) -> None:
    """Print the members' shares of each policy's answers, and the percentage of answers that differ from the
    recording."""
    first = replays[0]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    table.title, table.title_justify, table.title_style = "Share of answers per member, %", "left", ""
    table.add_column("policy", no_wrap=True)
    for name in first.members:
        table.add_column(Text(name), justify="right", no_wrap=True)
    table.add_column("to others, %", justify="right")
    for replayed in (*([real] if real else ()), *replays):
        diverted = "-" if replayed is real or replayed.diverted is None else f"{100 * replayed.diverted:.1f}"
        name = "(as answered)" if replayed is real else replayed.policy
        table.add_row(Text(name), *(f"{100 * share:.1f}" for share in replayed.shares.values()), diverted)
    console.print(table)
