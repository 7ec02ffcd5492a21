"""Tests of reading to the end: in as many steps as the other side takes, and not more than the limit."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lbdns_agent.non_blocking_sensors import READABLE, DescriptorWait
from lbdns_agent.read_to_end import read_to_end

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    read_end, write_end = os.pipe2(os.O_NONBLOCK)
    yield read_end, write_end
    os.close(read_end)


def test_it_waits_for_each_part(pipe: Pipe) -> None:
    reading = read_to_end(pipe[0], 100)
    assert next(reading) == DescriptorWait(pipe[0], READABLE)
    os.write(pipe[1], b"one, ")
    assert next(reading) == DescriptorWait(pipe[0], READABLE)
    os.write(pipe[1], b"two")
    os.close(pipe[1])
    with pytest.raises(StopIteration) as end:
        next(reading)
    assert end.value.value == b"one, two"


@pytest.mark.parametrize("size", [100, 101])
def test_the_limit(pipe: Pipe, size: int) -> None:
    os.write(pipe[1], bytes(size))
    os.close(pipe[1])
    with pytest.raises(StopIteration if size <= 100 else OverflowError):
        next(read_to_end(pipe[0], 100))


def test_time_is_up(pipe: Pipe) -> None:
    reading = read_to_end(pipe[0], 100)
    next(reading)
    with pytest.raises(TimeoutError):
        reading.throw(TimeoutError())
    os.close(pipe[1])
