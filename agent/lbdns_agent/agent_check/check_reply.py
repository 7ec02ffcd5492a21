"""Formats the reply to an HAProxy agent check (HAProxy's configuration manual, ``agent-check``). Pure."""

from __future__ import annotations

from typing import Final

from lbdns_agent.agent_check.order_file import DRAIN, MAINT

STOPPING: Final = "the agent is stopping"
LONGEST_REASON: Final = 200  # characters


def check_reply(percent: int | None, order: str, closed: str) -> bytes:
    """Return the line that reports this host's weight and state to HAProxy.

    ``percent`` is the free capacity, ``order`` is the administrator's order (may be empty), and ``closed`` is the
    reason why the host should receive no new clients (may be empty). A closed host gets weight 0, which HAProxy treats
    like a drain until the next weight arrives. ``drain`` would stay in force until ``ready`` is sent, and ``ready``
    also cancels drains by HAProxy's operators and by lbdns-scaler.
    """
    if order in (MAINT, DRAIN):
        return f"{order}\n".encode()
    words = [order] if order else []
    if closed:
        words += ["0%", "#", "drain:", _printable(closed)]
    else:
        words.append("up" if percent is None else f"{percent}%")
    return f"{' '.join(words)}\n".encode()


def _printable(reason: str) -> str:
    return "".join(c if " " <= c <= "~" else "?" for c in reason[:LONGEST_REASON])
