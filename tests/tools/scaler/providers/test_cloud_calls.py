"""Tests of the threads for calls to clouds: repetitions, time-outs, errors, and packages that are not installed."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.scaler.providers import cloud_calls
from lbdns_tools.scaler.providers.cloud_calls import CloudCalls
from lbdns_tools.scaler.providers.ec2_provider import Ec2Config, Ec2Provider
from lbdns_tools.scaler.providers.openstack_provider import OpenStackConfig, OpenStackProvider
from lbdns_tools.scaler.providers.provider import ProviderError


class CloudError(Exception):
    """An error of a made-up SDK."""


def translate(error: Exception) -> ProviderError | None:
    return ProviderError(f"cloud: {error}") if isinstance(error, CloudError) else None


@pytest.fixture
def calls() -> Iterator[CloudCalls]:
    found = CloudCalls("cloud", 5.0, translate, lambda error: "again" in str(error), (0.0, 0.0))
    yield found
    found.close()


def outcomes(*results: str | Exception) -> tuple[Callable[[], str], list[str]]:
    """Return a function that returns or raises each of ``results`` in turn, and the names of its threads."""
    threads: list[str] = []

    def call() -> str:
        threads.append(threading.current_thread().name)
        result = results[len(threads) - 1]
        if isinstance(result, Exception):
            raise result
        return result

    return call, threads


AGAIN = CloudError("again")


async def test_idempotent_calls_are_repeated(calls: CloudCalls) -> None:
    call, threads = outcomes(AGAIN, AGAIN, "done")
    assert await calls.idempotent(call) == "done"
    assert len(threads) == 3
    assert all(thread.startswith("lbdns-cloud") for thread in threads)


async def test_repetitions_are_limited(calls: CloudCalls) -> None:
    call, threads = outcomes(AGAIN, AGAIN, AGAIN, "done")
    with pytest.raises(ProviderError, match="cloud: again") as error:
        await calls.idempotent(call)
    assert error.value.__cause__ is AGAIN
    assert len(threads) == 3


async def test_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(cloud_calls.asyncio, "sleep", pause)  # type: ignore[attr-defined]
    calls = CloudCalls("cloud", 5.0, translate, lambda error: True)
    call, _ = outcomes(AGAIN, AGAIN, "done")
    await calls.idempotent(call)
    assert pauses == sorted(pauses)
    assert 0 < pauses[0] < pauses[1]
    calls.close()


async def test_other_errors_are_not_repeated(calls: CloudCalls) -> None:
    call, threads = outcomes(CloudError("no"), "done")
    with pytest.raises(ProviderError, match="cloud: no"):
        await calls.idempotent(call)
    assert len(threads) == 1


async def test_other_calls_are_never_repeated(calls: CloudCalls) -> None:
    call, threads = outcomes(AGAIN, "done")
    with pytest.raises(ProviderError, match="cloud: again"):
        await calls.once(call)
    assert len(threads) == 1


async def test_unknown_exceptions_are_not_hidden(calls: CloudCalls) -> None:
    """They are programming errors, so their tracebacks must stay."""
    for error in (KeyError("x"), TimeoutError("of the SDK")):
        call, _ = outcomes(error)
        with pytest.raises(type(error)) as raised:
            await calls.idempotent(call)
        assert raised.value.args == error.args  # asyncio copies a TimeoutError


async def test_a_call_that_hangs_ends_for_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_calls, "_SLACK", 0.1)
    calls = CloudCalls("cloud", 0.1, translate, lambda error: False)
    release = threading.Event()
    began = time.monotonic()
    with pytest.raises(ProviderError, match=r"cloud: no response within 0\.3 s"):
        await calls.once(release.wait, requests=2)
    assert time.monotonic() - began < 60
    release.set()
    calls.close()


@pytest.mark.parametrize(
    ("package", "make", "message"),
    [
        ("openstack", lambda: OpenStackProvider(OpenStackConfig("i", "f"), "web-"), "lbdns-tools[openstack]"),
        ("boto3", lambda: Ec2Provider(Ec2Config("ami-1", "t"), "web-"), "lbdns-tools[ec2]"),
    ],
)
def test_a_package_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, package: str, make: Callable[[], object], message: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(ConfigError) as error:
        make()
    assert f"run pip install '{message}'" in str(error.value)
    assert error.value.exit_status == 2
