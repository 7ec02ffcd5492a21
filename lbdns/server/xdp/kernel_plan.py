"""The plans that the XDP program follows. A plan is replaced in one step, without a system call.

A plan is in a region of the table ``orders``: three words for its length, the position at which it repeats, and the
stride between CPUs; then its members. The upper half of each word is the plan's generation. Each plan in turn has two
regions. When the new one is complete, a single word of the table ``plans`` makes the program follow it. If the program
was delayed so long that the region it reads was written again, it finds another generation, and leaves the query to the
sockets.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Final

from lbdns.server.xdp.kernel_errors import TablesFullError

_HEADER: Final = 3  # words
_LAST_GENERATION: Final = 0xFFFFFFFF
_SMALLEST: Final = 16  # words of a region


class OrderRegions:
    """Divides the table ``orders`` into regions whose sizes are powers of two."""

    def __init__(self, words: memoryview) -> None:
        """``words`` is the content of the table."""
        self.words = words
        self._used = 0
        self._free: dict[int, list[int]] = {}
        self._generation = 0

    def take(self, size: int) -> int:
        """Return the index of a region of ``size`` words. Raises TablesFullError."""
        if free := self._free.get(size):
            return free.pop()
        if self._used + size > len(self.words):
            raise TablesFullError("the table orders of the XDP program is full")
        self._used += size
        return self._used - size

    def give_back(self, at: int, size: int) -> None:
        self._free.setdefault(size, []).append(at)

    def new_generation(self) -> int:
        """Return a number that no other plan has; 0 is never used."""
        self._generation = self._generation % _LAST_GENERATION + 1
        return self._generation


class KernelPlan:
    """The plan for one pool and policy in the kernel, and the counters of its members."""

    def __init__(
        self, number: int, members: int, first_counter: int, plans: memoryview, regions: OrderRegions,
        count: Callable[[int, int], list[int]],
    ) -> None:  # fmt: skip
        """``count`` returns the values of counters, given the first one and their number."""
        self.number = number
        self.members = members
        self.first_counter = first_counter
        self._plans = plans
        self._regions = regions
        self._count = count
        self._size = 0  # of each region, in words
        self._current, self._next = -1, -1  # regions; -1: none

    def publish(self, order: Sequence[int], repeat_from: int, stride: int = 0) -> None:
        """Follow a plan from its beginning; CPU number n begins at position ``n * stride``, modulo the plan's length.

        Raises ValueError if the plan names no or unknown members, and TablesFullError if it is too long. In both cases
        the program goes on with the old plan.
        """
        if not 0 <= repeat_from < len(order):
            raise ValueError("a plan needs an order, and repeat_from must be an index into it")
        if min(order) < 0 or max(order) >= self.members or stride < 0:
            raise ValueError("a plan may only name members of its pool, and its stride may not be negative")
        self._make_room(_HEADER + len(order))
        generation = self._regions.new_generation()
        mark, at = generation << 32, self._next
        words = array("Q", [len(order), repeat_from, stride % len(order), *order])
        marked = array("Q", [mark | word for word in words])
        self._regions.words[at : at + len(marked)] = memoryview(marked)
        self._plans[self.number] = mark | at
        self._current, self._next = at, self._current

    def _make_room(self, words: int) -> None:
        """Make both regions large enough. The program still reads the old region, which nothing overwrites until the
        new plan is complete."""
        if words <= self._size:
            return
        size = max(_SMALLEST, 1 << (words - 1).bit_length())
        regions = [self._regions.take(size)]
        try:
            regions.append(self._regions.take(size))
        except TablesFullError:
            self._regions.give_back(regions[0], size)
            raise
        old = [at for at in (self._current, self._next) if at >= 0]
        size, self._size = self._size, size
        for at in old:
            self._regions.give_back(at, size)
        self._next, self._current = regions

    def withdraw(self) -> None:
        """Follow no plan: queries go to the sockets until the next plan."""
        self._plans[self.number] = 0

    def counts(self) -> list[int]:
        """Return how many times each member has been selected so far, by all plans and CPUs."""
        return self._count(self.first_counter, self.members)
