"""Plots of replays: the demand, and the servers that each policy had in service. Requires matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from lbdns_tools.plot_files import COLOURS, legend_below, new, tidy
from lbdns_tools.scaler.replay.fluid_replay import ReplayResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOUR: Final = 3600.0  # s
LINES: Final = ("-", "--", ":")  # once all colours are used
MOST_HOURS: Final = 72.0  # a longer trace has an axis in days


def demand_and_servers(results: Sequence[ReplayResult], capacity: float) -> Figure:
    """Draw two plots: the demand in requests/s, and below it the number of servers in service, with one line per
    policy.

    A second axis shows how many servers each rate keeps busy.
    """
    from matplotlib.ticker import MaxNLocator

    figure, ((demand,), (servers,)) = new(2, 1, 10.0, 7.0, sharex=True)
    begin, end = results[0].rounds[0].time, results[0].rounds[-1].time
    unit, name = (HOUR, "hours") if end - begin <= MOST_HOURS * HOUR else (24 * HOUR, "days")
    for panel in (demand, servers):
        tidy(panel)
    rounds = results[0].rounds
    times = [(each.time - begin) / unit for each in rounds]
    demand.plot(times, [each.requests_per_s for each in rounds], color="#000000", linewidth=1.0)
    demand.set_ylabel("requests/s")
    demand.set_ylim(bottom=0)
    busy = demand.secondary_yaxis("right", functions=_scales(capacity))
    busy.set_ylabel("servers fully busy")
    for number, result in enumerate(results):
        values = [each.in_service for each in result.rounds]
        colour, dashes = COLOURS[number % len(COLOURS)], LINES[number // len(COLOURS) % len(LINES)]
        servers.step(times, values, dashes, where="post", label=result.policy, color=colour, linewidth=1.4)
    servers.set_ylabel("servers in service")
    servers.set_ylim(bottom=0)
    servers.yaxis.set_major_locator(MaxNLocator(integer=True))
    servers.set_xlabel(f"{name} since the start of the trace")
    legend_below(figure, servers, columns=8)
    return figure


def _scales(capacity: float) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return two functions: one converts a rate to a number of servers, and the other converts back.

    Both also accept arrays, because matplotlib passes arrays.
    """
    return lambda rate: rate / capacity, lambda servers: servers * capacity
