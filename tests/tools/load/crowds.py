"""A run in this process, without any other."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from lbdns.endpoint import Endpoint
from lbdns_tools.load.clients import Crowd, Part
from lbdns_tools.load.connection import Sockets
from lbdns_tools.load.loop import Loop
from lbdns_tools.load.mix import Mix, one_url
from lbdns_tools.load.plan import Closed, Open, Phase, Resolve, Run
from lbdns_tools.load.resolve import Resolver

PATIENCE = 15.0  # seconds a run may take


def run_of(load: Closed | Open, url: str | Mix, **changes: Any) -> Run:
    mix = one_url(url) if isinstance(url, str) else url
    usual: dict[str, Any] = {
        "label": "test",
        "phases": (Phase(0.0, load, mix),),
        "resolve": Resolve("connection"),
        "keep_alive": False,
        "timeout_s": 5.0,
        "warm_up_s": 0.0,
        "max_connections": 0,
        "seed": 1,
    }
    return Run(**(usual | changes))


def crowd_of(run: Run, dns_timeout_s: float = 2.0, sources: tuple[str, ...] = ()) -> Crowd:
    """Run it to its end."""
    loop = Loop()
    sockets = Sockets(loop, run.keep_alive, sources, run.max_connections)
    server = run.resolve.server
    resolver = Resolver(loop, server, Random(1), dns_timeout_s) if server else None
    fixed = {target.host: target.host for phase in run.phases for target in phase.mix.targets}
    fixed = {host: host for host in fixed if Endpoint(host, 0).is_address}
    crowd = Crowd(loop, run, Part(), sockets, resolver, fixed)
    crowd.start(time.monotonic() + 0.01)
    finish(loop)
    sockets.close()
    assert sockets.open == 0, "connections are left open"
    return crowd


def finish(loop: Loop) -> None:
    """Run until no task is left. Fails if that takes too long."""
    late: list[bool] = []

    def give_up() -> None:
        late.append(True)
        loop.stop()

    loop.call_at(time.monotonic() + PATIENCE, give_up)
    loop.run()
    assert not late, "tasks are left"


def result_of(loop: Loop, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What a coroutine returns, or raises."""
    results: list[Any] = []
    errors: list[Exception] = []

    async def keep() -> None:
        try:
            results.append(await work())
        except Exception as error:
            errors.append(error)

    loop.start(keep())
    finish(loop)
    if errors:
        raise errors[0]
    return results[0]
