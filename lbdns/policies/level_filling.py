"""Level filling: splits an amount so that all members reach the same level, and the lowest members get the most."""

from __future__ import annotations

from collections.abc import Sequence

from lbdns.native_extension import AVAILABLE
from lbdns.policies.member_columns import gathered
from lbdns.policies.steps import SMALL, Steps, finish, parts

if AVAILABLE:
    import lbdns_native


def fill_to_level(
    loads: Sequence[float], widths: Sequence[float], limits: Sequence[float], amount: float
) -> list[float]:
    """Split ``amount`` into parts, each within its limit, that bring all members to the same level (load per width).

    If ``amount`` exceeds the sum of the limits, all parts exceed their limits by the same factor. All ``widths`` and
    ``limits`` are positive.
    """
    return finish(fill_to_level_steps(loads, widths, limits, amount))


def fill_to_level_steps(
    loads: Sequence[float], widths: Sequence[float], limits: Sequence[float], amount: float
) -> Steps[list[float]]:
    """Return the same parts as ``fill_to_level``, in steps."""
    if not AVAILABLE:
        return (yield from _python_fill_steps(loads, widths, limits, amount))
    found = lbdns_native.fill_to_level(loads, widths, limits, amount)
    yield
    return found


def python_fill_to_level(
    loads: Sequence[float], widths: Sequence[float], limits: Sequence[float], amount: float
) -> list[float]:
    """Return the same parts as ``fill_to_level``, without the native extension."""
    return finish(_python_fill_steps(loads, widths, limits, amount))


def _python_fill_steps(
    loads: Sequence[float], widths: Sequence[float], limits: Sequence[float], amount: float
) -> Steps[list[float]]:
    filled = [0.0] * len(loads)
    unlimited: Sequence[int] = range(len(loads))
    rest = amount
    while unlimited and rest > 0:
        level = yield from _level_steps(gathered(loads, unlimited), gathered(widths, unlimited), rest)
        full: set[int] = set()
        for part in parts(len(unlimited)):
            for i in unlimited[part]:
                above = level * widths[i] - loads[i]
                filled[i] = above if above > 0.0 else 0.0
                if above >= limits[i]:
                    full.add(i)
            if len(unlimited) > SMALL:
                yield
        if not full:
            return filled
        unlimited = [i for i in unlimited if i not in full]
        for i in full:
            filled[i] = limits[i]
        for i in unlimited:
            filled[i] = 0.0
        rest = amount - sum(filled)
        yield
    total = sum(filled)
    return [one * amount / total for one in filled]


def water_level(loads: Sequence[float], widths: Sequence[float], amount: float) -> float:
    """Return the level L (load per width) that solves ``sum(max(0, L * width - load)) = amount``.

    ``amount`` and all ``widths`` are positive; there is at least one member.
    """
    return finish(_level_steps(loads, widths, amount))


def _level_steps(loads: Sequence[float], widths: Sequence[float], amount: float) -> Steps[float]:
    members: list[tuple[float, float, float]] = []
    for part in parts(len(loads)):
        members += [(load / width, load, width) for load, width in zip(loads[part], widths[part], strict=True)]
        if len(loads) > SMALL:
            yield
    level = 0.0
    while members:
        # Without the members above the level, it falls: none of them can belong to the result
        level = (amount + sum(loads)) / sum(widths)
        below = [member for member in members if member[0] < level]
        if len(members) > SMALL:
            yield
        if len(below) == len(members):
            break
        members = below
        loads, widths = [load for _, load, _ in members], [width for _, _, width in members]
        if len(members) > SMALL:
            yield
    return level
