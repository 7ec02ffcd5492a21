"""Look-ups that belong together get one member: who asks for A and AAAA of a name is one client, and one charge. Pure.

Types that belong together are asked within moments by whoever wants to connect. The first look-up of a client hands
out; one of another type gets the same member, and so does the third. The same type again is the next client's, or the
next connection's, and hands out anew. Behind a resolver many clients have one address, so several hand-outs are kept
open: each type goes through them in order, the first A with the first AAAA and the second with the second.

Bounded memory: a client and a hand-out have one slot, which the next ones that fall on it take, and a slot has room for
the newest few hand-outs. Whatever is forgotten costs a charge, as without all this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lbdns.answering.constants import Type

if TYPE_CHECKING:
    from lbdns.answering.handout import Handout

SLOTS: Final = 16_384
OPEN: Final = 8  # hand-outs of a slot that can still be joined
#: The types that belong together, numbered. Browsers ask for all three at once.
TOGETHER: Final[Mapping[int, int]] = {Type.A: 0, Type.AAAA: 1, Type.HTTPS: 2}

# The cells of a slot. Its hand-outs are numbered on without end, also from owner to owner
_MARK: Final = 0  # whose it is
_BEGIN: Final = 1  # the first hand-out that its owner can join
_END: Final = 2  # the next one
_NEXT: Final = 3  # by type: the first that it hasn't joined
_TIMES: Final = _NEXT + len(TOGETHER)  # when, monotonic seconds; and behind each the member
_MEMBERS: Final = _TIMES + 1
CELLS: Final = _TIMES + 2 * OPEN


class Coherence:
    """By the hash of a client's address and a hand-out: the newest members handed out, when, and how far each type has
    come."""

    __slots__ = ("_cells", "coherent")

    def __init__(self) -> None:
        # One list: an array would make an object of each number at each look
        self._cells: list[Any] = [0] * (SLOTS * CELLS)
        self.coherent = 0  # queries answered with what another type had got

    @staticmethod
    def mark(host: str, handout: int) -> int:
        """What tells this client at this hand-out from others; its port says nothing."""
        return hash((host, handout))

    def member(self, mark: int, which: int, since: float) -> int | None:
        """The member that a look-up of this type (``which`` of TOGETHER) belongs to, if it was handed out after
        ``since``. Nothing moves."""
        slot = mark % SLOTS * CELLS
        number = self._number(slot, which, since) if self._cells[slot] == mark else None
        found: int | None = None if number is None else self._cells[slot + number % OPEN * 2 + _MEMBERS]
        return found

    def give(self, handout: Handout, host: str, which: int, now: float) -> int:
        """The member for this look-up: the one that it belongs to, or the next. One that can't be handed out any more
        is replaced for the types that are still to come, too."""
        mark = hash((host, handout.number))
        cells, slot = self._cells, mark % SLOTS * CELLS
        end = cells[slot + _END]
        member: int
        if cells[slot] != mark:
            cells[slot] = mark
            cells[slot + _BEGIN] = end
        elif cells[slot + _NEXT + which] < end:
            number = self._number(slot, which, now - handout.coherence)
            if number is not None:
                cells[slot + _NEXT + which] = number + 1
                place = slot + number % OPEN * 2
                member = cells[place + _MEMBERS]
                if member in handout.usable:
                    self.coherent += 1
                    return member
                member = cells[place + _MEMBERS] = handout.next()
                return member
        member = handout.next()
        place = slot + end % OPEN * 2
        cells[place + _TIMES] = now
        cells[place + _MEMBERS] = member
        cells[slot + _END] = cells[slot + _NEXT + which] = end + 1
        return member

    def _number(self, slot: int, which: int, since: float) -> int | None:
        """The oldest hand-out that this type can join."""
        cells = self._cells
        end: int = cells[slot + _END]
        number: int = max(cells[slot + _NEXT + which], cells[slot + _BEGIN], end - OPEN)
        while number < end:
            if cells[slot + number % OPEN * 2 + _TIMES] > since:
                return number
            number += 1
        return None
