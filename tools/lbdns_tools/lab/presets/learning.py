"""A load that doesn't count, with which each workload begins: lbdns and its agents know nothing, and learn it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab import measuring
from lbdns_tools.lab.case import Case, Outcome
from lbdns_tools.lab.presets.points import OVERHEAD_S, TIMEOUT_S, dns_name
from lbdns_tools.lab.presets.preset import Settings, Step
from lbdns_tools.load import study
from lbdns_tools.load.mix import Mix
from lbdns_tools.load.plan import Closed, Resolve

if TYPE_CHECKING:
    from lbdns_tools.lab.lab import Lab

#: s; a little longer than the moving averages of the choosing are, 10 s (docs/choosing.md)
SECONDS: Final = 12.0
QUICK_SECONDS: Final = 6.0
CLIENTS: Final = 60
FRESH_S: Final = 5.0  # s for new lbdns and agents until every host is usable


def learning(farm: str, what: str, mix: Mix, settings: Settings) -> Step:
    """``mix`` is to be asked for at the name of ``best``."""
    seconds = QUICK_SECONDS if settings.quick else SECONDS
    return Step(
        f"{farm}, {what}: the choosing learns it",
        farm,
        FRESH_S + seconds + OVERHEAD_S,
        partial(_learn, mix=mix, seconds=seconds, farm=farm, seed=settings.seed),
        needed=True,
    )


def _learn(lab: Lab, mix: Mix, seconds: float, farm: str, seed: int) -> Iterable[Outcome]:
    lab.fresh()
    case = Case("best", mix.name, "connection", dns_name("best"), farm)
    said = study.Settings(Resolve("connection"), timeout_s=TIMEOUT_S, seed=seed)
    measuring.measure(lab, case, study.closed(said, mix.name, mix, Closed(CLIENTS, seconds)))
    return ()
