"""Work in steps: a long computation as a generator, which stops after each step so that its caller can do other work.

The time between two stops does not grow with the work. The result is the same, however long the caller waits between
two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final, ParamSpec, TypeVar

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

#: A computation that stops after each step, and returns a result after the last one
Steps = Generator[None, None, Result]

STEP: Final = 1000  # items per step: some 0.2 us of work for each
SMALL: Final = 200  # items: computations that are repeated many times do not stop for fewer


def finish(steps: Steps[Result]) -> Result:
    """Do all remaining steps at once, and return the result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # the type of a generator's result


def in_one_step(function: Callable[Parameters, Result]) -> Callable[Parameters, Steps[Result]]:
    """Return a function that computes the same result as ``function`` in a single step."""

    def steps(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Steps[Result]:
        yield from ()
        return function(*args, **kwargs)

    return steps


def parts(size: int, most: int = STEP) -> Iterator[slice]:
    """Return slices of at most ``most`` items, which together make up a sequence of ``size`` items."""
    for begin in range(0, size, most):
        yield slice(begin, begin + most)
