"""States in one text why a member is in its state. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lbdns.model.liveness import State
from lbdns.model.overrides import Override
from lbdns.model.snapshot import Reading


def reason(state: State, reading: Reading | None, overrides: Sequence[Override], now: float, pool: str) -> str:
    """Return the reason why a member of ``pool`` is in its state.

    For a usable member without overrides, the result is an empty string.
    """
    if state == "usable" and not overrides:
        return ""
    by_slot = {override.slot: override for override in overrides}
    if state == "drained":
        return by_slot["drain"].text() if "drain" in by_slot else "drained"
    forced = by_slot.get("force")
    if state == "alarm":
        return forced.text() if forced else f"alarm: {reading.alarm if reading else ''}"
    if state == "unknown":
        return "has never reported"
    if state == "silent":
        return _silence(reading, now, pool)
    texts = [forced.text()] if forced else []
    if "weight" in by_slot:
        texts.append(by_slot["weight"].text())
    return "; ".join(texts)


def _silence(reading: Reading | None, now: float, pool: str) -> str:
    if reading is None:
        return "has never reported"
    seconds = max(0.0, now - reading.received)
    ago = f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if reading.gone:
        return f"its agent stopped {ago} ago"
    if reading.score is None:
        return f"{reading.failure(pool) or 'checks have stopped'}; no check passed for {ago}"
    silence = f"alarm: {reading.alarm}" if reading.alarm else f"no report for {ago}"
    failure = reading.failure(pool)
    return f"{failure}; {silence}" if failure else f"no report for {ago}"
