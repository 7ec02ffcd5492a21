"""Which dropped datagrams deserve a log line: the first of a reason, then one a minute. Pure: time is an argument."""

from __future__ import annotations

from typing import Final

EVERY: Final = 60.0  # seconds; garbage from the network must not fill a disk

ADVICE: Final = {
    "too_long": "is something else sending to this port?",
    "malformed": "is something else sending to this port?",
    "unknown_host": "is the host a member of a pool, and does the agent's --name say so?",
    "bad_tag": "does the agent's key file fit this collector's? Without keys the source must be the member's address",
    "rate": "more than 50 reports a second of one host; is its agent running many times?",
    "clock": "the clocks are over 30 s apart; is time synchronised on both?",
    "replay": "sent again, or two agents with one name and different clocks",
}


class Rejections:
    """Remembers per reason when it was last told and how many have come since."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}
        self._since: dict[str, int] = {}

    def note(self, reason: str, source: str, now: float) -> str | None:
        """Count a dropped datagram from ``source`` at ``now`` (monotonic seconds); the line to log, if it is time."""
        count = self._since[reason] = self._since.get(reason, 0) + 1
        told = self._told.get(reason)
        if told is not None and now - told < EVERY:
            return None
        self._told[reason], self._since[reason] = now, 0
        more = f" ({count} since the last word of it)" if count > 1 else ""
        return f"report from {source} dropped: {reason}{more}: {ADVICE[reason]}"
