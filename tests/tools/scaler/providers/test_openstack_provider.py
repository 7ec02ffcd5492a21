"""Tests of the provider ``openstack`` over HTTP with a fake cloud: faults, lost responses, statuses and lookups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from lbdns_tools.scaler.providers.openstack_provider import MAX_USER_DATA, OpenStackConfig, OpenStackProvider
from lbdns_tools.scaler.providers.provider import MachineStatus, ProviderError, QuotaError
from tests.tools.scaler.providers.fake_cloud import Fault
from tests.tools.scaler.providers.fake_openstack import FakeOpenStack
from tests.tools.scaler.providers.machine_waits import find, until
from tests.tools.scaler.providers.provider_farms import NO_PAUSES

CONFIG = OpenStackConfig("debian-12", "small", networks=("private",))
OURS = {"lbdns-scaler": "web-"}
POST = "POST /compute/v2.1/servers$"
LIST = "GET .*/servers/detail"


@pytest.fixture
async def cloud(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeOpenStack]:
    async with FakeOpenStack(instances=5) as found:
        for key, value in found.environment().items():
            monkeypatch.setenv(key, value)
        yield found


@pytest.fixture
async def provider(cloud: FakeOpenStack) -> AsyncIterator[OpenStackProvider]:
    found = OpenStackProvider(CONFIG, "web-", NO_PAUSES)
    yield found
    await found.close()


async def test_all_settings_reach_nova(cloud: FakeOpenStack) -> None:
    config = replace(
        CONFIG, networks=("private", "network-2"), key_name="admin", security_groups=("web", "ssh"),
        availability_zone="az-1", region="RegionOne",
    )  # fmt: skip
    provider = OpenStackProvider(config, "web-", NO_PAUSES)
    await provider.create("web-1", "#!/bin/sh\n")
    (server,) = cloud.servers.values()
    assert server["asked"] == {
        "imageRef": "image-1", "flavorRef": "flavor-1", "key_name": "admin", "availability_zone": "az-1",
        "networks": [{"uuid": "network-1"}, {"uuid": "network-2"}],
        "security_groups": [{"name": "web"}, {"name": "ssh"}],
    }  # fmt: skip
    assert (server["script"], server["metadata"]) == ("#!/bin/sh\n", OURS)
    await provider.close()


async def test_settings_that_are_not_set_are_not_sent(cloud: FakeOpenStack) -> None:
    provider = OpenStackProvider(replace(CONFIG, networks=()), "web-", NO_PAUSES)
    await provider.create("web-1", "")
    (server,) = cloud.servers.values()
    assert server["asked"] == {"imageRef": "image-1", "flavorRef": "flavor-1"}
    assert not cloud.count("/network")
    await provider.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": "debian-13"}, "debian-13"),
        ({"flavor": "huge"}, "huge"),
        ({"networks": ("private", "absent")}, "absent"),
        ({"region": "Elsewhere"}, "Elsewhere"),
        ({"cloud": "nowhere"}, "nowhere"),
    ],
)
async def test_names_that_the_cloud_does_not_have(cloud: FakeOpenStack, changes: Any, message: str) -> None:
    provider = OpenStackProvider(replace(CONFIG, **changes), "web-", NO_PAUSES)
    with pytest.raises(ProviderError, match=f"^openstack: .*{message}"):
        await provider.create("web-1", "")
    assert not cloud.servers
    await provider.close()


async def test_lookups_are_made_once(cloud: FakeOpenStack, provider: OpenStackProvider) -> None:
    for name in ("web-1", "web-2", "web-3"):
        await provider.create(name, "")
    for path in ("/image/v2/images$", "/network/v2.0/networks$", "/flavors/small"):
        assert cloud.count(path) == 1, path


STATUSES = [
    ("BUILD", None, "building"), ("BUILD", "spawning", "building"), ("REBUILD", None, "building"),
    ("ACTIVE", None, "running"), ("ACTIVE", "powering-off", "stopping"), ("ACTIVE", "deleting", "deleting"),
    ("ACTIVE", "image_snapshot", "running"), ("REBOOT", "rebooting", "running"), ("UNKNOWN", None, "running"),
    ("SHUTOFF", None, "stopped"), ("SHUTOFF", "powering-on", "building"), ("ERROR", None, "failed"),
    ("ERROR", "deleting", "deleting"), ("PAUSED", None, "failed"), ("SHELVED_OFFLOADED", None, "failed"),
    ("DELETED", None, None), ("SOFT_DELETED", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "task", "expected"), STATUSES)
async def test_statuses(
    cloud: FakeOpenStack, provider: OpenStackProvider, status: str, task: str | None, expected: str | None
) -> None:
    cloud.holding = True
    cloud.add("web-1", OURS, status, **{"OS-EXT-STS:task_state": task})
    machine = await find(provider, "web-1")
    assert (machine and machine.status.value) == expected
    if machine:
        assert machine.detail == (f"{status} ({task})" if task else status)


async def test_a_server_that_cannot_be_built(cloud: FakeOpenStack, provider: OpenStackProvider) -> None:
    cloud.failing = {"web-1"}
    await provider.create("web-1", "")
    failed = await until(provider, "web-1", MachineStatus.FAILED)
    assert failed.detail == "ERROR: No valid host was found."
    with pytest.raises(ProviderError, match=r"cannot start web-1: its status is ERROR: No valid host"):
        await provider.start("web-1")
    await provider.delete("web-1")
    assert await find(provider, "web-1") is None


async def test_addresses(cloud: FakeOpenStack) -> None:
    cloud.add("web-1", OURS)
    for public, addresses in ((False, ("10.0.0.1", "2001:db8::1")), (True, ("192.0.2.1",))):
        provider = OpenStackProvider(replace(CONFIG, public=public), "web-", NO_PAUSES)
        (machine,) = await provider.machines()
        assert machine.addresses == addresses
        await provider.close()


async def test_servers_of_others_are_left_alone(cloud: FakeOpenStack, provider: OpenStackProvider) -> None:
    for metadata in ({}, {"lbdns-scaler": "other"}):
        cloud.add("web-1", metadata)
    assert await provider.machines() == ()
    await provider.delete("web-1")
    assert len(cloud.servers) == 2
    await provider.create("web-1", "")
    assert len(cloud.servers) == 3


QUOTAS = [
    (5, -1, 5), (5, 6, 3), (-1, 6, 3), (-1, -1, None), (2, -1, 2), (1, -1, 1), (0, 0, 1),
]  # fmt: skip


@pytest.mark.parametrize(("instances", "cores", "expected"), QUOTAS)
async def test_quotas(
    cloud: FakeOpenStack, provider: OpenStackProvider, instances: int, cores: int, expected: int | None
) -> None:
    """The project has one server of the farm. One with two cores counts against the limits."""
    cloud.add("web-1", OURS)
    cloud.instances, cloud.cores = instances, cores
    assert await provider.quota() == expected


async def test_a_quota_that_others_use_up(cloud: FakeOpenStack, provider: OpenStackProvider) -> None:
    for _ in range(5):
        cloud.add("db", {})
    assert await provider.quota() == 0
    with pytest.raises(QuotaError, match="Quota exceeded for instances: Requested 1, but already used 5 of 5"):
        await provider.create("web-1", "")
    assert cloud.count(POST) == 1


async def test_a_wrong_password(cloud: FakeOpenStack, provider: OpenStackProvider, monkeypatch: Any) -> None:
    monkeypatch.setenv("OS_PASSWORD", "wrong")
    with pytest.raises(ProviderError, match=r"requires authentication.*check the user and the password"):
        await provider.machines()
    assert cloud.count("POST .*tokens") == 1


async def test_a_cloud_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = FakeOpenStack()  # not started
    for key, value in cloud.environment().items():
        monkeypatch.setenv(key, value)
    provider = OpenStackProvider(CONFIG, "web-", NO_PAUSES)
    with pytest.raises(ProviderError, match=r"openstack: .*onnect"):
        await provider.machines()
    await provider.close()


async def test_reading_is_repeated_after_failures_that_may_pass(
    cloud: FakeOpenStack, provider: OpenStackProvider
) -> None:
    cloud.add("web-1", OURS)
    for fault in (Fault(LIST, "error", 2, 500, "{}"), Fault(LIST, "lost", 2), Fault(LIST, "error", 1, 503, "{}")):
        cloud.faults = [fault]
        assert len(await provider.machines()) == 1
    cloud.faults = [Fault(LIST, "error", 3, 500, "{}")]
    with pytest.raises(ProviderError, match=r"openstack: .*500"):
        await provider.machines()


async def test_reading_is_not_repeated_after_other_failures(cloud: FakeOpenStack, provider: OpenStackProvider) -> None:
    cloud.faults = [Fault(LIST, "error", 9, 403, '{"forbidden": {"message": "Policy does not allow it"}}')]
    with pytest.raises(ProviderError, match="Policy does not allow it"):
        await provider.machines()
    assert cloud.count(LIST) == 1


@pytest.mark.parametrize("kind", ["error", "lost"])
async def test_creation_is_requested_once(cloud: FakeOpenStack, provider: OpenStackProvider, kind: Any) -> None:
    """If the response is lost, the server is there; after an error, it is not."""
    cloud.faults = [Fault(POST, kind, 1, 500, "{}")]
    if kind == "lost":
        await provider.create("web-1", "")
    else:
        with pytest.raises(ProviderError, match="500"):
            await provider.create("web-1", "")
    assert cloud.count(POST) == 1
    assert len(cloud.servers) == (kind == "lost")
    await provider.create("web-1", "")
    assert len(cloud.servers) == 1


async def test_a_request_without_a_response_ends_and_blocks_nothing(cloud: FakeOpenStack) -> None:
    provider = OpenStackProvider(replace(CONFIG, timeout=0.5), "web-", NO_PAUSES)
    await provider.machines()
    cloud.faults = [Fault(POST, "hang")]
    began = time.monotonic()
    creation = asyncio.create_task(provider.create("web-1", ""))
    ticks = 0
    while not creation.done():
        await asyncio.sleep(0.01)
        ticks += 1
    with pytest.raises(ProviderError, match=r"openstack: .*timed out"):
        await creation
    assert ticks > 1, "the request has not blocked the loop"
    assert time.monotonic() - began < 60
    await provider.create("web-1", "")
    assert len(cloud.servers) == 1
    await provider.close()


async def test_of_two_servers_with_one_name_one_is_deleted(
    cloud: FakeOpenStack, provider: OpenStackProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """A creation whose response was lost may take effect after the next one has listed the servers."""
    failed, first, second = (cloud.add("web-1", OURS, status) for status in ("ERROR", "ACTIVE", "ACTIVE"))
    other = cloud.add("web-1", {})
    for _ in range(2):  # a dry run creates nothing, and must delete nothing
        (machine,) = await provider.machines()
        assert machine.addresses[0] == "10.0.0.2"
    assert len(cloud.servers) == 4
    await provider.create("web-1", "")
    for _ in range(2):
        (machine,) = await provider.machines()
        assert machine.addresses[0] == "10.0.0.2"
    assert set(cloud.servers) == {first, other}
    assert {failed, second} == {record.args[0] for record in caplog.records if isinstance(record.args, tuple)}


async def test_deletion_includes_doubles(cloud: FakeOpenStack, provider: OpenStackProvider) -> None:
    for _ in range(2):
        cloud.add("web-1", OURS)
    await provider.delete("web-1")
    assert await provider.machines() == ()


@pytest.mark.parametrize(
    ("request_", "status", "after"), [("start", "SHUTOFF", "ACTIVE"), ("stop", "ACTIVE", "SHUTOFF")]
)
async def test_a_lost_response_to_a_start_or_stop(
    cloud: FakeOpenStack, provider: OpenStackProvider, request_: str, status: str, after: str
) -> None:
    """The repetition meets a conflict, since the first request has been performed."""
    key = cloud.add("web-1", OURS, status)
    cloud.faults = [Fault("/action$", "lost")]
    await getattr(provider, request_)("web-1")
    await provider.machines()
    assert cloud.servers[key]["status"] == after
    assert cloud.count("/action$") == 2


async def test_a_conflict_for_another_reason_is_an_error(cloud: FakeOpenStack, provider: OpenStackProvider) -> None:
    cloud.add("web-1", OURS, "SHUTOFF")
    cloud.faults = [Fault("/action$", "error", 1, 409, '{"conflictingRequest": {"message": "Instance is locked"}}')]
    with pytest.raises(ProviderError, match="Instance is locked"):
        await provider.start("web-1")


async def test_a_name_that_is_being_deleted(cloud: FakeOpenStack, provider: OpenStackProvider) -> None:
    cloud.holding = True
    cloud.add("web-1", OURS, **{"OS-EXT-STS:task_state": "deleting"})
    with pytest.raises(ProviderError, match="a server with this name is being deleted"):
        await provider.create("web-1", "")
    await provider.delete("web-1")
    assert not cloud.count("DELETE")


async def test_user_data_that_is_too_long(cloud: FakeOpenStack, provider: OpenStackProvider) -> None:
    with pytest.raises(ProviderError, match=f"longer than {MAX_USER_DATA} bytes in base64"):
        await provider.create("web-1", "x" * MAX_USER_DATA)
    with pytest.raises(ProviderError, match="is not a host name"):
        await provider.create("Web 1", "")
    assert not cloud.servers


async def test_too_many_requests_are_repeated_unless_a_quota_is_meant(
    cloud: FakeOpenStack, provider: OpenStackProvider
) -> None:
    cloud.faults = [Fault(LIST, "error", 1, 429, '{"overLimit": {"message": "Too many requests"}}')]
    assert await provider.machines() == ()
    cloud.faults = [Fault(POST, "error", 1, 413, '{"overLimit": {"message": "Quota exceeded for cores"}}')]
    with pytest.raises(QuotaError, match="Quota exceeded for cores"):
        await provider.create("web-1", "")
