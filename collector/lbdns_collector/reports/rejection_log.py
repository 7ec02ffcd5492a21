"""Rejection log: which dropped report datagrams get a log line. Sans-I/O: the caller passes the time in."""

from __future__ import annotations

from typing import Final

LOG_INTERVAL: Final = 60.0  # seconds, per reason: garbage from the network must not fill a disk

ADVICE: Final = {
    "too_long": "does another program send to this port?",
    "malformed": "does another program send to this port?",
    "unknown_host": "is the host a member of a pool, and does the agent's --name say so?",
    "bad_tag": "do the key files of agent and collector match? Without keys, the source must be the member's address",
    "rate": "more than 50 reports/s from one host; does its agent run more than once?",
    "clock": "the clocks are more than 30 s apart; is time synchronised on both hosts?",
    "replay": "a repeated datagram, or two agents with one name and different clocks",
}


class RejectionLog:
    """Limits log lines to the first dropped datagram per reason, then one a minute."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}
        self._since: dict[str, int] = {}

    def note(self, reason: str, source: str, now: float) -> str | None:
        """Count a dropped datagram from ``source`` at ``now`` (monotonic seconds).

        Returns the line to log, or None if this reason was logged within the last minute.
        """
        count = self._since[reason] = self._since.get(reason, 0) + 1
        logged_at = self._logged_at.get(reason)
        if logged_at is not None and now - logged_at < LOG_INTERVAL:
            return None
        self._logged_at[reason], self._since[reason] = now, 0
        more = f" ({count} since the last log line)" if count > 1 else ""
        return f"report from {source} dropped: {reason}{more}: {ADVICE[reason]}"
