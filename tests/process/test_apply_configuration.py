"""Tests of applying a configuration: all parts commit or all roll back, and errors name the active configuration."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from lbdns.process.apply_configuration import PartlyAppliedError, PreparedChange, apply
from lbdns_shared.errors import ConfigError

NAMES: Final = ("sockets", "workers", "pages")


class FakePart:
    """A part of a program that records its reconfiguration steps, and fails at the step ``fails_at``."""

    def __init__(self, name: str, steps: list[str], fails_at: str = "") -> None:
        self.name, self.steps, self.fails_at = name, steps, fails_at
        self.configuration = "old"

    async def prepare(self, new: str) -> PreparedChange:
        await asyncio.sleep(0)
        self._step("prepare", ConfigError(f"{self.name}: not available"))

        def commit() -> None:
            self._step("commit", RuntimeError("broken promise"))
            self.configuration = new

        async def finish() -> None:
            await asyncio.sleep(0)
            self._step("finish", RuntimeError("broken promise"))

        async def rollback() -> None:
            self._step("roll back", RuntimeError("broken promise"))

        return PreparedChange(self.name, commit, finish, rollback)

    def _step(self, step: str, error: Exception) -> None:
        self.steps.append(f"{step} {self.name}")
        if step == self.fails_at:
            raise error


def parts(steps: list[str], **fails_at: str) -> list[FakePart]:
    return [FakePart(name, steps, fails_at.get(name, "")) for name in NAMES]


async def test_all_prepare_then_commit_then_finish() -> None:
    steps: list[str] = []
    made = parts(steps)
    await apply(made, "new")
    assert steps == [f"{step} {name}" for step in ("prepare", "commit", "finish") for name in NAMES]
    assert [part.configuration for part in made] == ["new"] * 3


@pytest.mark.parametrize("which", range(3))
async def test_a_part_that_cannot_prepare_rolls_the_others_back_in_reverse_order(which: int) -> None:
    steps: list[str] = []
    made = parts(steps, **{NAMES[which]: "prepare"})
    with pytest.raises(ConfigError, match=f"^{NAMES[which]}: not available$"):
        await apply(made, "new")
    assert [part.configuration for part in made] == ["old"] * 3
    assert steps[which + 1 :] == [f"roll back {name}" for name in reversed(NAMES[:which])]


async def test_cancelling_rolls_back() -> None:
    steps: list[str] = []
    made = parts(steps)
    applying = asyncio.create_task(apply(made, "new"))
    while steps != ["prepare sockets", "prepare workers"]:  # noqa: ASYNC110
        await asyncio.sleep(0)
    applying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await applying
    assert steps[-1] == "roll back sockets"
    assert [part.configuration for part in made] == ["old"] * 3


async def test_nothing_else_runs_between_the_commits() -> None:
    steps: list[str] = []
    made = parts(steps)
    applying = asyncio.create_task(apply(made, "new"))
    seen = set()
    while not applying.done():
        seen.add(tuple(part.configuration for part in made))
        await asyncio.sleep(0)
    assert seen == {("old",) * 3, ("new",) * 3}


@pytest.mark.parametrize("step", ["commit", "finish"])
async def test_a_commit_that_fails_is_reported_and_the_others_go_on(step: str) -> None:
    steps: list[str] = []
    made = parts(steps, workers=step)
    with pytest.raises(PartlyAppliedError, match="the new configuration is in force, but these parts failed: workers"):
        await apply(made, "new")
    assert [part.configuration for part in made if part.name != "workers"] == ["new"] * 2
    assert steps[-1] == "finish pages"


async def test_a_rollback_that_fails_is_reported_and_the_others_go_on() -> None:
    steps: list[str] = []
    made = parts(steps, workers="roll back", pages="prepare")
    with pytest.raises(
        PartlyAppliedError, match=r"pages: not available\. The old configuration stays in force, but .*workers"
    ):
        await apply(made, "new")
    assert steps[-1] == "roll back sockets"
