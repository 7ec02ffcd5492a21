"""Applies a configuration to every part of a running program: all parts prepare; then, all commit or all roll back."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lbdns_shared.errors import LbdnsError

log = logging.getLogger("lbdns")

NewT_contra = TypeVar("NewT_contra", contravariant=True)
NewT = TypeVar("NewT")


class PartlyAppliedError(LbdnsError):
    """Raised if a part cannot commit, finish or roll back.

    The message states which configuration the other parts use.
    """


def _do_nothing() -> None:
    pass


async def _wait_for_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """The steps that complete or undo a part's prepared change.

    ``apply`` calls either ``commit`` and then ``finish``, or only ``rollback``. None of these steps may raise an
    exception.
    """

    part: str  # its name in the log
    #: Puts the new configuration into force. Must not wait: all parts commit in one turn of the event loop, so that no
    #: query, report or page meets a mixture of the old and the new configuration.
    commit: Callable[[], None] = _do_nothing
    #: Awaited after every part has committed: does what takes time, and releases what only the old configuration used.
    finish: Callable[[], Awaitable[None]] = _wait_for_nothing
    #: Awaited when another part could not prepare: releases what ``prepare`` has acquired.
    rollback: Callable[[], Awaitable[None]] = _wait_for_nothing


class Part(Protocol[NewT_contra]):
    """Any part of a program that depends on the program's configuration."""

    async def prepare(self, new: NewT_contra) -> PreparedChange:
        """Acquire the resources of ``new`` that may be unavailable, such as sockets, and return the prepared change.

        The part continues to use the old configuration until the change commits. The caller must not prepare another
        change before this change has finished or rolled back. If ``new`` cannot be used, the part releases everything
        that it has acquired, and raises LbdnsError.
        """


async def apply(parts: Sequence[Part[NewT]], new: NewT) -> None:
    """Apply the configuration ``new`` to all parts, or to no part if one of the parts cannot prepare.

    Parts prepare, commit and finish in order; they roll back in reverse order. The caller must not apply two
    configurations at the same time. Raises any exception from a part's ``prepare``; after such an exception, every part
    still uses the old configuration. Raises PartlyAppliedError if a part's ``commit``, ``finish`` or ``rollback``
    fails.
    """
    prepared: list[PreparedChange] = []
    try:
        for part in parts:
            prepared.append(await part.prepare(new))  # noqa: PERF401 (what has prepared must be known)
    except BaseException as error:
        if failed := [change.part for change in reversed(prepared) if not await _succeeds(change, change.rollback)]:
            raise PartlyAppliedError(
                f"{error}. The old configuration stays in force, but these parts failed to roll back: "
                f"{', '.join(failed)}. Restart the program"
            ) from error
        raise
    await commit_all(prepared)


async def commit_all(prepared: Sequence[PreparedChange]) -> None:
    """Commit all prepared changes, then finish them. Raises PartlyAppliedError if a ``commit`` or ``finish`` fails."""
    failed = {change.part for change in prepared if not _commits(change)}
    failed |= {change.part for change in prepared if not await _succeeds(change, change.finish)}
    if failed:
        raise PartlyAppliedError(
            f"the new configuration is in force, but these parts failed: {', '.join(sorted(failed))}; "
            "see the log for details, and restart the program"
        )


def _commits(change: PreparedChange) -> bool:
    try:
        change.commit()
    except Exception:
        log.exception("%s: failed to commit a configuration", change.part)
        return False
    return True


async def _succeeds(change: PreparedChange, step: Callable[[], Awaitable[None]]) -> bool:
    try:
        await step()
    except Exception:
        log.exception("%s: failed to finish or roll back a configuration", change.part)
        return False
    return True
