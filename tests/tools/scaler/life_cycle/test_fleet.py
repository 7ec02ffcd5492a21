"""A fleet on a fake farm: servers come, serve, are drained and go, whatever fails and whenever the scaler is killed."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.life_cycle.web_probe import BenchmarkSettings
from lbdns_tools.scaler.providers.provider import Machine, MachineStatus
from tests.tools.scaler.life_cycle.fake_farm import FakeFarm, FakeProbe, FleetDriver

NONE: list[str] = []


async def test_servers_come_into_service(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(), tmp_path)
    await driver.look()
    await driver.want(2, seconds=15)
    assert driver.states() == {"web-1": "in service", "web-2": "in service"}
    assert driver.farm.broken_promises == NONE


async def test_no_client_reaches_a_server_before_its_benchmark(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(), tmp_path, BenchmarkSettings())
    await driver.want(2)
    for _ in range(12):
        await driver.look()
        early = [name for name, state in driver.states().items() if state in ("configuring", "benchmarking")]
        assert not any(driver.farm.serving(name) for name in early)
    assert driver.states() == {"web-1": "in service", "web-2": "in service"}


async def test_a_server_that_the_quota_forbids_is_not_held_back(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(quota_left=1), tmp_path)
    driver.farm.found["other"] = Machine("other", MachineStatus.STOPPED)
    await driver.want(1, 3)
    assert (driver.states().get("web-1"), driver.farm.drained) == (None, set())


async def test_a_server_that_is_not_needed_is_drained_before_it_is_deleted(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(connections=3.0), tmp_path)
    await driver.want(2, seconds=15)
    await driver.want(1, seconds=20)
    assert driver.states() == {"web-1": "in service", "web-2": "draining"}  # it still has connections
    driver.farm.connections = 0.0
    await driver.look(10)
    assert driver.states() == {"web-1": "in service"}
    assert "web-2" not in driver.farm.found
    assert driver.farm.drained == set()  # the name is free again
    assert driver.farm.broken_promises == NONE


async def test_open_connections_hold_a_server_up_only_for_a_limited_time(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(connections=3.0), tmp_path)
    await driver.want(2, seconds=15)
    await driver.want(1, seconds=60)
    assert driver.states() == {"web-1": "in service"}


async def test_a_draining_server_returns_when_demand_returns(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(connections=3.0), tmp_path)
    await driver.want(2, seconds=15)
    await driver.want(1, seconds=10)
    await driver.want(2, seconds=5)
    assert driver.states() == {"web-1": "in service", "web-2": "in service"}
    assert driver.farm.created == ["web-1", "web-2"]


async def test_spares_are_stopped_and_started_again(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(), tmp_path, spares=1)
    await driver.want(3, seconds=15)
    await driver.want(1, seconds=20)
    assert sorted(driver.states().values()) == ["in service", "stopped"]
    await driver.want(2, seconds=15)
    assert driver.count("in service") == 2
    assert len(driver.farm.created) == 3


async def test_a_slow_server_is_replaced(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(slow={"web-1": 10.0}), tmp_path, BenchmarkSettings(at_least=50.0))
    await driver.want(1, seconds=12)
    assert driver.fleet.failures["too slow"] == 1
    await driver.want(1, seconds=15)
    assert driver.states() == {"web-2": "in service"}
    assert driver.fleet.records["web-2"].capacity == 100.0


@pytest.mark.parametrize("failing", ["broken", "mute"])
async def test_a_server_that_does_not_start_is_replaced(tmp_path: Path, failing: str) -> None:
    farm = FakeFarm(**{failing: frozenset({"web-1"})})  # type: ignore[arg-type]
    driver = FleetDriver(farm, tmp_path)
    for _ in range(10):
        await driver.want(1, seconds=12)
    assert driver.states() == {"web-2": "in service"}
    assert set(farm.found) == {"web-2"}


async def test_a_machine_that_disappears_is_replaced(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(), tmp_path)
    await driver.want(2, seconds=15)
    del driver.farm.found["web-1"]
    await driver.look(3)
    await driver.want(2, seconds=15)
    assert driver.states() == {"web-2": "in service", "web-3": "in service"}


async def test_the_quota_is_respected(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(quota_left=2), tmp_path)
    await driver.look()
    await driver.want(5, seconds=15)
    assert driver.states() == {"web-1": "in service", "web-2": "in service"}
    assert driver.fleet.failures == {}


async def test_an_unknown_quota_ends_the_attempt(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(), tmp_path)
    await driver.look()
    driver.farm.quota_left = 1  # the fleet has not seen this limit yet
    await driver.want(3, seconds=15)
    assert driver.count("in service") == 1
    assert driver.fleet.failures == {"create": 2}
    assert len(driver.fleet.records) == 1


async def test_an_operators_drain_is_left_alone(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(), tmp_path)
    await driver.want(2, seconds=15)
    driver.farm.held.add("web-1")
    await driver.look(30)
    assert driver.states() == {"web-1": "in service", "web-2": "in service"}
    await driver.want(2, seconds=15)  # another server takes its place
    assert driver.states()["web-3"] == "in service"
    assert driver.states()["web-1"] == "in service"
    assert "web-1" not in driver.farm.drained


async def test_an_operators_drain_of_a_draining_server_is_left_alone(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(connections=3.0), tmp_path)
    await driver.want(2, seconds=15)
    await driver.want(1, seconds=5)
    driver.farm.drained.discard("web-2")  # the operator's drain replaces the scaler's
    driver.farm.held.add("web-2")
    await driver.look(100)
    assert driver.states() == {"web-1": "in service", "web-2": "draining"}
    assert driver.fleet.held == {"web-2"}
    assert driver.farm.drained == set()
    driver.farm.held.clear()
    await driver.look(60)
    assert driver.states() == {"web-1": "in service"}
    assert driver.farm.broken_promises == NONE


@pytest.mark.parametrize("failing", ["down", "front_down"])
async def test_nothing_changes_while_the_servers_cannot_be_observed(tmp_path: Path, failing: str) -> None:
    driver = FleetDriver(FakeFarm(), tmp_path)
    await driver.want(2, seconds=15)
    before = driver.states()
    setattr(driver.farm, failing, "no response")
    await driver.look(300)
    assert driver.states() == before
    assert driver.fleet.trouble == "no response"
    setattr(driver.farm, failing, "")
    await driver.look(3)
    assert driver.states() == before


async def test_an_unexpected_error_is_reported_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver = FleetDriver(FakeFarm(), tmp_path)
    await driver.want(1, seconds=15)

    async def fail() -> None:
        raise KeyError("web-1")

    monkeypatch.setattr(driver.farm, "servers", fail)
    await driver.look(30)
    assert driver.fleet.trouble == "unexpected error: KeyError('web-1')"
    assert driver.states() == {"web-1": "in service"}
    assert len([record for record in caplog.records if record.exc_info]) == 1


async def test_without_a_record_nothing_is_created(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    driver = FleetDriver(FakeFarm(), tmp_path / "missing")
    await driver.want(1, seconds=10)
    assert driver.farm.created == NONE
    assert "servers.json: cannot write the file: No such file" in driver.fleet.trouble
    assert len([message for message in caplog.messages if "cannot write the file" in message]) == 1


async def test_servers_are_drained_and_deleted_while_the_records_cannot_be_written(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(), tmp_path)
    await driver.want(2, seconds=15)
    (tmp_path / "servers.json").unlink()
    (tmp_path / "servers.json").mkdir()
    await driver.want(1, seconds=20)
    assert set(driver.farm.found) == {"web-1"}
    assert driver.farm.broken_promises == NONE
    assert "cannot write the file" in driver.fleet.trouble
    (tmp_path / "servers.json").rmdir()
    await driver.want(2, seconds=15)
    assert driver.states() == {"web-1": "in service", "web-3": "in service"}
    assert driver.fleet.trouble == ""


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_the_clock_may_jump(tmp_path: Path, jump: float) -> None:
    driver = FleetDriver(FakeFarm(boot=20.0, connections=3.0), tmp_path)
    await driver.want(2, seconds=30)
    await driver.want(1, seconds=3)  # web-2 drains
    await driver.want(3, seconds=3)  # web-2 returns, web-3 starts
    await driver.want(2, seconds=1)
    await driver.want(1, seconds=3)
    before = driver.states()
    assert before == {"web-1": "in service", "web-2": "draining"}
    driver.farm.jump(jump)
    await driver.look(10)
    assert driver.states() == before  # the connections are waited for as long as before
    driver.farm.connections = 0.0
    await driver.look(15)
    assert driver.states() == {"web-1": "in service"}
    await driver.want(2, seconds=40)
    assert driver.count("in service") == 2
    assert driver.fleet.failures == {}


async def test_records_from_the_future_do_not_block_a_server(tmp_path: Path) -> None:
    """The clock was set back while the scaler did not run."""
    driver = FleetDriver(FakeFarm(), tmp_path)
    await driver.want(2, seconds=15)
    await driver.want(1, seconds=2)
    driver.farm.jump(-3600.0)
    driver.restart()
    await driver.look(20)
    assert driver.states() == {"web-1": "in service"}


async def test_a_refusal_that_repeats_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    driver = FleetDriver(FakeFarm(), tmp_path)
    await driver.look()
    driver.farm.refusal = "no permission"
    await driver.want(1, seconds=30)
    assert caplog.messages.count("web-1: create failed: no permission") == 1
    assert driver.fleet.failures["create"] > 1


async def test_closing_does_not_wait_for_a_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FleetDriver(FakeFarm(), tmp_path, BenchmarkSettings())
    monkeypatch.setattr(FakeProbe, "benchmark", lambda self, addresses: asyncio.sleep(3600))
    await driver.want(1, seconds=10)
    assert driver.states() == {"web-1": "benchmarking"}
    await asyncio.wait_for(driver.fleet.close(), 60)
    assert driver.states() == {"web-1": "benchmarking"}


async def test_the_records_can_be_lost(tmp_path: Path) -> None:
    driver = FleetDriver(FakeFarm(connections=1.0), tmp_path, spares=1)
    await driver.want(4, seconds=15)
    await driver.want(2, seconds=8)
    (tmp_path / "servers.json").unlink()
    before = driver.states()
    driver.restart()
    await driver.look()
    assert driver.states() == before
    await driver.want(5, seconds=25)
    assert driver.count("in service") == 5
    assert len(set(driver.farm.created)) == len(driver.farm.created)


async def test_a_malformed_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "servers.json").write_text('{"version": 1, "servers": [{}]}')
    with pytest.raises(LbdnsError, match="not a valid list of servers"):
        FleetDriver(FakeFarm(), tmp_path)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("want"), st.integers(1, 6)),
        st.tuples(st.just("look"), st.integers(1, 8)),
        st.tuples(st.just("kill"), st.just(0)),
        st.tuples(st.just("connections"), st.integers(0, 2)),
        st.tuples(st.just("down"), st.integers(0, 1)),
        st.tuples(st.just("lose"), st.integers(1, 6)),
    ),
    max_size=25,
)


@given(STEPS, st.integers(0, 2), st.frozensets(st.sampled_from(["web-1", "web-2", "web-3", "web-5"])), st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_orphan_no_double_and_nothing_goes_undrained(
    steps: list[tuple[str, int]], spares: int, broken: frozenset[str], benchmark: bool
) -> None:
    """Whatever happens, in whatever order: at the end, the wanted servers serve, and no other server exists."""

    async def play(folder: Path) -> None:
        farm = FakeFarm(quota_left=9, broken=broken)
        driver = FleetDriver(farm, folder, BenchmarkSettings() if benchmark else None, spares)
        await driver.look()
        for what, number in steps:
            match what:
                case "want":
                    await driver.want(number)
                case "look":
                    await driver.look(number)
                case "kill":
                    driver.restart()
                    await driver.look()
                case "connections":
                    farm.connections = float(number)
                case "down":
                    farm.down = "no response" if number else ""
                case "lose":
                    farm.found.pop(f"web-{number}", None)
            assert len(farm.found) <= 9
        farm.down, farm.connections = "", 0.0
        for _ in range(6):
            await driver.want(2, seconds=30)
        serving = [name for name in farm.found if farm.serving(name)]
        assert len(serving) == 2
        assert driver.count("in service") == 2
        assert set(farm.found) == set(driver.fleet.records)
        assert len(farm.found) <= 2 + spares
        assert farm.broken_promises == NONE

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder)))


@pytest.mark.parametrize("killed_after", [False, True])
@pytest.mark.parametrize("killed_at", range(1, 19))
async def test_killed_during_each_request(tmp_path: Path, killed_at: int, killed_after: bool) -> None:
    """The scaler is killed during the nth request, before or after the request is carried out."""
    farm = FakeFarm(killed_at=killed_at, killed_after=killed_after, broken=frozenset({"web-2"}))
    driver = FleetDriver(farm, tmp_path, BenchmarkSettings(), spares=1)
    for wanted in (2, 2, 3, 1, 2, 2):
        await driver.want(wanted, seconds=30)
    assert farm.calls >= killed_at
    assert driver.count("in service") == 2
    assert sum(farm.serving(name) for name in farm.found) == 2
    assert set(farm.found) == set(driver.fleet.records)
    assert farm.broken_promises == NONE
