"""Checks that CPU use is sampled once per interval, as a percentage of one core, even if a group disappears."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Any, cast

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.machines.control_groups import make_group
from lbdns_tools.lab.measuring.cgroup_sampler import CgroupSampler, MachineSample
from tests.end_to_end.process import eventually
from tests.needs import needs

FAST = 0.05  # s between two samples here


class Made:
    """A fake control group that has used the fraction ``share`` of a core since its creation."""

    def __init__(self, share: float = 0.0, memory: int | None = 1000, error: Exception | None = None) -> None:
        self.share, self.memory, self.error = share, memory, error
        self.begun = time.monotonic()

    def cpu_seconds(self) -> float:
        if self.error:
            raise self.error
        return self.share * (time.monotonic() - self.begun)

    def memory_bytes(self) -> int | None:
        if isinstance(self.error, OSError):
            raise self.error
        return self.memory


def samples_of(groups: dict[str, Made], seconds: float = 6 * FAST) -> tuple[MachineSample, ...]:
    """Return at least three samples. On a busy machine, some attempts give fewer."""
    samples: tuple[MachineSample, ...] = ()
    while len(samples) < 3:
        begin = time.time()
        with CgroupSampler(cast(Any, groups), FAST) as sampler:
            samples = sampler.between(begin, begin + seconds)
    return samples


def test_percent_of_a_core() -> None:
    def are_right() -> bool:
        """Return whether all samples are right. A busy machine may stop the sampler between use and time."""
        samples = samples_of({"web": Made(0.4, 2**20), "idle": Made()})
        assert all(sample.cpu["idle"] == 0.0 for sample in samples)
        assert all(sample.memory == {"web": 2**20, "idle": 1000} for sample in samples)
        return all(sample.cpu["web"] == pytest.approx(40, rel=0.1) for sample in samples)

    eventually(are_right, "all samples are right")


def test_samples_are_at_whole_intervals() -> None:
    def are_on_time() -> bool:
        """Return whether most samples come soon after the interval is over. A busy machine may delay some."""
        times = [sample.time for sample in samples_of({"web": Made()}, 10 * FAST)]
        assert times == sorted(times)
        late = sorted(moment % FAST for moment in times)
        return late[len(late) // 2] < FAST / 2

    eventually(are_on_time, "most samples are on time")


@pytest.mark.parametrize("error", [OSError("gone"), LbdnsError("gone"), ValueError("no number"), KeyError("usage")])
def test_group_that_can_not_be_read_is_left_out(error: Exception) -> None:
    samples = samples_of({"dead": Made(error=error), "web": Made(0.5)})
    assert samples
    assert all(set(sample.cpu) == {"web"} for sample in samples)
    assert all(("dead" in sample.memory) != isinstance(error, OSError) for sample in samples)


def test_without_a_memory_controller_there_is_no_memory() -> None:
    assert all(sample.memory == {} and "web" in sample.cpu for sample in samples_of({"web": Made(memory=None)}))


def test_group_made_anew_is_no_negative_use() -> None:
    group = Made(0.9)
    group.begun -= 100
    begin = time.time()
    with CgroupSampler(cast(Any, {"web": group}), FAST) as sampler:
        sampler.between(begin, begin + 2 * FAST)
        group.begun = time.monotonic()
        samples = sampler.between(begin, time.time() + 6 * FAST)
    assert any("web" not in sample.cpu for sample in samples)
    assert all(value >= 0 for sample in samples for value in sample.cpu.values())


def test_only_seconds_that_lie_wholly_within() -> None:
    """Check which samples are selected if the first sample begins at 99.5 s, and the others at whole seconds."""
    sampler = CgroupSampler({}, 1.0)
    begins = [99.5, *range(100, 105)]
    sampler._samples = [(float(begun), MachineSample(int(begun) + 1.01, {}, {})) for begun in begins]
    assert [round(sample.time) for sample in sampler.between(100.0, 104.0)] == [101, 102, 103, 104]
    assert [round(sample.time) for sample in sampler.between(100.5, 103.9)] == [102, 103]
    assert sampler.between(101.2, 101.9) == ()


def test_the_last_second_is_waited_for() -> None:
    def is_waited_for() -> bool:
        """Return whether the last sample is there. A busy machine may delay it until the time is over."""
        begin = time.time()
        with CgroupSampler(cast(Any, {"web": Made()}), 0.2) as sampler:
            samples = sampler.between(begin - 1, begin + 0.8)  # it is asked for before it is over
        return bool(samples) and samples[-1].time == pytest.approx(begin + 0.7, abs=0.15)

    eventually(is_waited_for, "the last sample is there")


@needs(root=True, cpu_groups=True)
def test_real_group_that_is_limited() -> None:
    group = make_group(f"lbdns-lab-test/{os.getpid()}")
    try:
        group.limit_cpu(0.2, 0.05)
        begin = time.time()
        with CgroupSampler({"web": group}, 0.5) as sampler:
            burner = subprocess.Popen(group.command("sh", "-c", "while :; do :; done"))
            try:
                while not (samples := sampler.between(begin + 0.5, begin + 2.0)):
                    begin = time.time()  # a busy machine has delayed all samples
            finally:
                burner.kill()
                burner.wait()
        mean = sum(sample.cpu["web"] for sample in samples) / len(samples)
        assert 1 < mean < 26  # on a machine with other work it may get less than its 20
    finally:
        group.kill()
        group.remove()
