"""Performs load runs inside the test process, without starting another process."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from lbdns_shared.endpoint import Endpoint
from lbdns_tools.load.client_loops import ClientCrowd
from lbdns_tools.load.epoll_loop import EpollLoop
from lbdns_tools.load.http_connection import LoadConnections
from lbdns_tools.load.load_plan import ClosedLoop, LoadPhase, LoadRun, OpenLoop, ResolveRule
from lbdns_tools.load.request_mix import RequestMix, one_url
from lbdns_tools.load.stub_resolver import StubResolver

PATIENCE = 120.0  # seconds a run may take; a busy machine may stop a process for several seconds


def run_of(load: ClosedLoop | OpenLoop, url: str | RequestMix, **changes: Any) -> LoadRun:
    mix = one_url(url) if isinstance(url, str) else url
    usual: dict[str, Any] = {
        "label": "test",
        "phases": (LoadPhase(0.0, load, mix),),
        "resolve": ResolveRule("connection"),
        "timeout_s": PATIENCE,
    }
    return LoadRun(**(usual | changes))


def crowd_of(run: LoadRun, dns_timeout_s: float = PATIENCE, sources: tuple[str, ...] = ()) -> ClientCrowd:
    """Run a load until it is complete, and return its clients."""
    loop = EpollLoop()
    sockets = LoadConnections(loop, run.keep_alive, sources, run.max_connections)
    server = run.resolve.server
    resolver = StubResolver(loop, server, Random(1), dns_timeout_s) if server else None
    fixed = {target.host: target.host for phase in run.phases for target in phase.mix.targets}
    fixed = {host: host for host in fixed if Endpoint(host, 0).is_address}
    crowd = ClientCrowd(run, sockets, resolver, fixed)
    crowd.start(time.monotonic() + 0.01)
    finish(loop)
    sockets.close()
    assert sockets.open == 0, "connections are left open"
    return crowd


def finish(loop: EpollLoop) -> None:
    """Run the event loop until no task is left. Fails after a time limit."""
    late: list[bool] = []

    def give_up() -> None:
        late.append(True)
        loop.stop()

    loop.call_at(time.monotonic() + PATIENCE, give_up)
    loop.run()
    assert not late, "tasks are left"


def result_of(loop: EpollLoop, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine, and return its result or raise its exception."""
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
