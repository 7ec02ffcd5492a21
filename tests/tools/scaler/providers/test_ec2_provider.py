"""Tests of the provider ``ec2`` over HTTP with a fake cloud: faults, client tokens, states and failed launches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from lbdns_tools.scaler.providers.ec2_provider import Ec2Config, Ec2Provider, client_token
from lbdns_tools.scaler.providers.provider import MachineStatus, ProviderError, QuotaError
from lbdns_tools.scaler.providers.user_data import MAX_LENGTH
from tests.tools.scaler.providers.fake_cloud import Fault
from tests.tools.scaler.providers.fake_ec2 import FakeEc2, ec2_error
from tests.tools.scaler.providers.machine_waits import find, until, until_gone
from tests.tools.scaler.providers.provider_farms import NO_PAUSES

OURS = {"lbdns-scaler": "web-", "Name": "web-1"}
LIST, RUN = "DescribeInstances", "RunInstances"


@pytest.fixture
async def cloud(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeEc2]:
    async with FakeEc2(limit=5) as found:
        for key, value in found.environment().items():
            monkeypatch.setenv(key, value)
        yield found


@pytest.fixture
def config(cloud: FakeEc2) -> Ec2Config:
    return Ec2Config("ami-1", "t3.small", endpoint=cloud.url)


@pytest.fixture
async def provider(config: Ec2Config) -> AsyncIterator[Ec2Provider]:
    found = Ec2Provider(config, "web-", NO_PAUSES)
    yield found
    await found.close()


async def test_all_settings_reach_ec2(cloud: FakeEc2, config: Ec2Config) -> None:
    config = replace(
        config, subnet="subnet-1", security_groups=("sg-1", "sg-2"), key_name="admin", availability_zone="eu-west-1a"
    )
    provider = Ec2Provider(config, "web-", NO_PAUSES)
    await provider.create("web-1", "#!/bin/sh\n")
    (instance,) = cloud.instances.values()
    assert (instance["script"], instance["tags"]) == ("#!/bin/sh\n", OURS)
    asked = {
        key: value
        for key, value in instance["asked"].items()
        if key not in ("Action", "Version", "UserData") and not key.startswith("TagSpecification")
    }
    assert asked == {
        "ImageId": "ami-1", "InstanceType": "t3.small", "MinCount": "1", "MaxCount": "1", "SubnetId": "subnet-1",
        "SecurityGroupId.1": "sg-1", "SecurityGroupId.2": "sg-2", "KeyName": "admin",
        "Placement.AvailabilityZone": "eu-west-1a", "ClientToken": client_token("web-", "web-1", 0),
    }  # fmt: skip
    await provider.close()


STATES = [
    ("pending", None, "building", True), ("running", None, "running", True), ("stopping", None, "stopping", False),
    ("stopped", None, "stopped", False), ("shutting-down", None, "deleting", False), ("terminated", None, None, False),
    ("terminated", ("Client.UserInitiatedShutdown", "x"), None, False),
    ("terminated", ("Server.InternalError", "x"), "failed", False),
    ("terminated", ("Server.SpotInstanceTermination", "x"), "failed", False),
    ("terminated", ("Client.VolumeLimitExceeded", "x"), "failed", False),
]  # fmt: skip


@pytest.mark.parametrize(("state", "reason", "expected", "charged"), STATES)
async def test_states(
    cloud: FakeEc2, provider: Ec2Provider, state: str, reason: Any, expected: str | None, charged: bool
) -> None:
    cloud.holding = True
    cloud.add(OURS, state, reason=reason)
    machine = await find(provider, "web-1")
    assert (machine and machine.status.value) == expected
    if machine:
        assert bool(machine.created) == charged
        assert machine.detail == (f"{state}: x" if reason else state)


async def test_an_instance_that_ends_while_it_is_built(cloud: FakeEc2, provider: Ec2Provider) -> None:
    cloud.failing = {"web-1"}
    await provider.create("web-1", "")
    failed = await until(provider, "web-1", MachineStatus.FAILED)
    assert failed.detail == "terminated: Internal error on launch"
    for request, what in ((provider.start, "start"), (provider.stop, "stop")):
        with pytest.raises(ProviderError, match=f"cannot {what} web-1: it is terminated: Internal error on launch"):
            await request("web-1")
    await provider.delete("web-1")
    assert await provider.machines() == ()
    assert not cloud.count("TerminateInstances")
    cloud.failing = set()
    await provider.create("web-1", "")
    await until(provider, "web-1", MachineStatus.RUNNING)


async def test_a_failed_launch_does_not_hide_a_live_instance(cloud: FakeEc2, provider: Ec2Provider) -> None:
    cloud.add(OURS, "running")
    cloud.add(OURS, "terminated", reason=("Server.InternalError", "x"))
    assert (await until(provider, "web-1", MachineStatus.RUNNING)).addresses == ("10.0.0.1", "2001:db8::1")


async def test_public_addresses(cloud: FakeEc2, config: Ec2Config) -> None:
    cloud.add(OURS)
    provider = Ec2Provider(replace(config, public=True), "web-", NO_PAUSES)
    (machine,) = await provider.machines()
    assert machine.addresses == ("192.0.2.1", "2001:db8::1")
    await provider.close()


async def test_lists_are_read_in_pages(cloud: FakeEc2, provider: Ec2Provider) -> None:
    for number in range(5):
        cloud.add({"lbdns-scaler": "web-", "Name": f"web-{number}"})
    cloud.add({"lbdns-scaler": "other", "Name": "web-9"})
    assert [machine.name for machine in await provider.machines()] == [f"web-{number}" for number in range(5)]
    assert cloud.count(LIST) == 3


@pytest.mark.parametrize("code", ["InstanceLimitExceeded", "VcpuLimitExceeded"])
async def test_quotas(cloud: FakeEc2, provider: Ec2Provider, code: str) -> None:
    cloud.faults = [ec2_error(RUN, code, "no more than 5")]
    with pytest.raises(QuotaError, match=rf"^ec2: .*{code}.*no more than 5"):
        await provider.create("web-1", "")
    assert cloud.count(RUN) == 1


async def test_the_configured_quota(config: Ec2Config, provider: Ec2Provider) -> None:
    assert await provider.quota() is None
    limited = Ec2Provider(replace(config, quota=7), "web-", NO_PAUSES)
    assert await limited.quota() == 7
    await limited.close()


async def test_a_lack_of_capacity_is_no_quota(cloud: FakeEc2, provider: Ec2Provider) -> None:
    cloud.faults = [ec2_error(RUN, "InsufficientInstanceCapacity", "none in this zone", status=500)]
    with pytest.raises(ProviderError, match="none in this zone") as error:
        await provider.create("web-1", "")
    assert not isinstance(error.value, QuotaError)
    assert cloud.count(RUN) == 1


@pytest.mark.parametrize("key", ["wrong", ""])
async def test_credentials_that_are_wrong_or_missing(
    cloud: FakeEc2, provider: Ec2Provider, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    if not key:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ProviderError, match=r"ec2: .*redentials.*check the credentials"):
        await provider.machines()
    assert cloud.count(LIST) == (1 if key else 0)


async def test_a_missing_region(cloud: FakeEc2, provider: Ec2Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ProviderError, match="ec2: You must specify a region"):
        await provider.machines()


@pytest.mark.parametrize(
    "fault",
    [
        ec2_error(LIST, "InternalError", status=500, times=2),
        ec2_error(LIST, "RequestLimitExceeded", status=503, times=2),
        ec2_error(LIST, "Throttling", status=400, times=2),
        Fault(LIST, "lost", 2),
    ],
)
async def test_requests_are_repeated_after_failures_that_may_pass(
    cloud: FakeEc2, provider: Ec2Provider, fault: Fault
) -> None:
    cloud.add(OURS)
    cloud.faults = [replace(fault)]
    assert len(await provider.machines()) == 1
    assert cloud.count(LIST) == 3
    cloud.faults = [replace(fault, times=3)]
    with pytest.raises(ProviderError, match=r"^ec2: "):
        await provider.machines()


async def test_requests_are_not_repeated_after_other_failures(cloud: FakeEc2, provider: Ec2Provider) -> None:
    cloud.faults = [ec2_error(RUN, "InvalidAMIID.NotFound", "The image id '[ami-1]' does not exist")]
    with pytest.raises(ProviderError, match=r"The image id '\[ami-1\]' does not exist"):
        await provider.create("web-1", "")
    assert cloud.count(RUN) == 1


async def test_a_lost_response_creates_one_instance(cloud: FakeEc2, provider: Ec2Provider) -> None:
    cloud.faults = [Fault(RUN, "lost", 2)]
    await provider.create("web-1", "")
    assert (cloud.count(RUN), len(cloud.instances)) == (3, 1)


async def test_a_lost_response_and_a_restart_create_one_instance(cloud: FakeEc2, config: Ec2Config) -> None:
    """Lists may not yet contain the instance, so only the client token prevents a second one."""
    first, second = (Ec2Provider(config, "web-", NO_PAUSES) for _ in range(2))
    cloud.faults = [Fault(RUN, "lost", 3)]
    with pytest.raises(ProviderError):
        await first.create("web-1", "")
    cloud.hidden = set(cloud.instances)
    await second.create("web-1", "")
    assert len(cloud.instances) == 1
    for provider in (first, second):
        await provider.close()


async def test_a_new_instance_is_listed_before_ec2_lists_it(cloud: FakeEc2, provider: Ec2Provider) -> None:
    await provider.create("web-1", "")
    cloud.hidden = set(cloud.instances)
    assert (await until(provider, "web-1", MachineStatus.BUILDING)).addresses
    with pytest.raises(ProviderError, match="is unknown"):
        await provider.delete("web-1")
    cloud.hidden = set()
    await provider.delete("web-1")
    await until_gone(provider, "web-1")


async def test_other_settings_do_not_block_a_name(cloud: FakeEc2, config: Ec2Config, provider: Ec2Provider) -> None:
    await provider.create("web-1", "")
    await provider.delete("web-1")
    await until_gone(provider, "web-1")
    other = Ec2Provider(replace(config, instance_type="t3.large"), "web-", NO_PAUSES)
    await other.create("web-1", "")
    await until(other, "web-1", MachineStatus.RUNNING)
    assert len(cloud.instances) == 2
    await other.close()


async def test_a_name_that_is_being_deleted(cloud: FakeEc2, provider: Ec2Provider) -> None:
    cloud.holding = True
    cloud.add(OURS, "shutting-down")
    with pytest.raises(ProviderError, match="an instance with this name is being deleted"):
        await provider.create("web-1", "")


async def test_a_request_without_a_response_ends_and_blocks_nothing(cloud: FakeEc2, config: Ec2Config) -> None:
    provider = Ec2Provider(replace(config, timeout=0.5), "web-", NO_PAUSES)
    await provider.machines()
    cloud.faults = [Fault(LIST, "hang", 3)]
    began = time.monotonic()
    request = asyncio.create_task(provider.machines())
    ticks = 0
    while not request.done():
        await asyncio.sleep(0.01)
        ticks += 1
    with pytest.raises(ProviderError, match=r"^ec2: .*timeout"):
        await request
    assert ticks > 1, "the request has not blocked the loop"
    assert time.monotonic() - began < 60
    await provider.close()


async def test_user_data_that_is_too_long(cloud: FakeEc2, provider: Ec2Provider) -> None:
    with pytest.raises(ProviderError, match=f"longer than {MAX_LENGTH} bytes"):
        await provider.create("web-1", "x" * (MAX_LENGTH + 1))
    with pytest.raises(ProviderError, match="is not a host name"):
        await provider.create("Web 1", "")
    assert not cloud.instances


def test_client_tokens_differ() -> None:
    tokens = {client_token(farm, name, number) for farm in ("a", "b") for name in ("c", "d") for number in (0, 1)}
    assert len(tokens) == 8
    assert {len(token) for token in tokens} == {64}  # characters: the longest that EC2 accepts
