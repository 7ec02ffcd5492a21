"""Tests of watching a scaled farm: connections while servers are drained, and the answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench import farm_watch
from lbdns_tools.bench.farm_watch import FarmWatch, Removal


class WatchedFarm:
    """A farm whose status documents, connections and answers a test sets."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.open: dict[str, int | None] = {}
        self.ending = ""
        self.wanted = 1
        self.scaler = self.dns = None
        self.programs = SimpleNamespace(first_end=lambda: self.ending)

    def document(self) -> str:
        servers = [{"name": name, "state": state, "addresses": [name]} for name, state in self.states.items()]
        counts = {"in service": list(self.states.values()).count("in service")}
        return json.dumps({"counts": counts, "wanted": self.wanted, "servers": servers})

    def near(self, work: Callable[[], Any]) -> Any:
        return work()

    def connections(self, name: str, address: str) -> int | None:
        return self.open.get(name, 0)


@pytest.fixture
def farm(monkeypatch: pytest.MonkeyPatch) -> WatchedFarm:
    made = WatchedFarm()

    def no_answer(*_: object, **__: object) -> None:
        raise LbdnsError("no answer")

    monkeypatch.setattr(farm_watch, "fetch", lambda *_: made.document())
    monkeypatch.setattr(farm_watch, "ask", no_answer)
    return made


def watch_states(farm: WatchedFarm, *looks: tuple[str, int | None]) -> FarmWatch:
    watch = FarmWatch(farm)  # type: ignore[arg-type]
    for state, count in looks:
        farm.states, farm.open = {"web-1": "in service", "web-2": state}, {"web-2": count}
        watch.look()
    return watch


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([("in service", 4), ("draining", 3), ("draining", 0), ("deleting", None)], [Removal("web-2", 3, 0)]),
        ([("draining", 3), ("draining", 1), ("stopping", None), ("stopped", None)], [Removal("web-2", 3, 1)]),
        ([("draining", 3), ("draining", 0), ("stopping", 2), ("stopped", None)], [Removal("web-2", 3, 2)]),
        ([("draining", 3), ("joining", 2), ("in service", 2)], []),
        ([("in service", 1), ("failed", 1), ("deleting", 1)], []),
        (
            [("draining", 1), ("draining", 0), ("stopping", None), ("in service", 2), ("draining", 2), ("deleting", 0)],
            [Removal("web-2", 1, 0), Removal("web-2", 2, 0)],
        ),
    ],
)
def test_connections_of_servers_that_stop(
    farm: WatchedFarm, looks: list[tuple[str, int | None]], expected: list[Removal]
) -> None:
    assert watch_states(farm, *looks).removals == expected


def test_servers_in_service_and_the_first_demand_for_more(farm: WatchedFarm) -> None:
    watch = watch_states(farm, ("joining", 0))
    assert (watch.in_service, watch.most, watch.wanted_at) == (1, 1, None)
    farm.wanted, farm.states = 2, {"web-1": "in service", "web-2": "in service"}
    watch.look()
    first = watch.wanted_at
    assert first is not None
    watch.look()
    assert (watch.most, watch.wanted_at) == (2, first)


def test_a_farm_has_shrunk_when_no_server_is_draining(farm: WatchedFarm) -> None:
    watch = watch_states(farm, ("in service", 1), ("draining", 1))
    assert watch.in_service == 1
    assert not watch.has_shrunk
    del farm.states["web-2"]  # it was stopped and deleted between two looks
    watch.look()
    assert watch.has_shrunk
    assert watch.removals == []


def test_the_first_answer_that_names_another_server(farm: WatchedFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "127.0.1.1"

    def answer(*_: object, **__: object) -> Any:
        record = SimpleNamespace(rtype=1, rdata=address)
        return SimpleNamespace(message=SimpleNamespace(rr=[record]))

    monkeypatch.setattr(farm_watch, "ask", answer)
    watch = watch_states(farm, ("joining", 0), ("joining", 0))
    assert watch.named_at is None
    address = "127.0.1.2"
    watch.look()
    assert watch.named_at is not None


def test_a_process_that_ends_and_a_condition_that_never_holds(farm: WatchedFarm) -> None:
    watch = FarmWatch(farm)  # type: ignore[arg-type]
    with pytest.raises(LbdnsError, match=r"still not true after 0.01 s: it rains"):
        watch.until(lambda: False, "it rains", 0.01)
    farm.ending = "the scaler exited with status 1"
    with pytest.raises(LbdnsError, match="the scaler exited with status 1 before this happened: it rains"):
        watch.until(lambda: False, "it rains", 5.0)
    watch.until(lambda: True, "it rains", 5.0)
