"""The subjects under which agents publish their reports: one for each host, below the host's pool. Pure.

A subject is ``lbdns.report.POOL.HOST``. POOL is the pool that the agent's option --pool names, or ``-`` if it names
none. A host name may contain dots, so it may have several tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

NO_POOL: Final = "-"  # stands for the reports of agents without --pool
_PREFIX: Final = "lbdns.report."
_OTHER: Final = re.compile(rb"[^A-Za-z0-9_-]")


def report_subject(pool: str, host: str) -> str:
    """Return the subject for the reports of ``host``. ``pool`` may be empty."""
    return f"{_PREFIX}{_token(pool)}.{host}"


def report_subjects(pools: Iterable[str]) -> tuple[str, ...]:
    """Return patterns that match all reports of agents in ``pools``, or all reports if there are no pools.

    ``NO_POOL`` in ``pools`` stands for agents without --pool.
    """
    tokens = [NO_POOL if pool == NO_POOL else _token(pool) for pool in pools]
    return tuple(f"{_PREFIX}{token}.>" for token in tokens) or (f"{_PREFIX}>",)


def host_in_subject(subject: str) -> str:
    """Return the host that may publish under ``subject``, or an empty string if it is not a subject for reports."""
    if not subject.startswith(_PREFIX):
        return ""
    return subject[len(_PREFIX) :].partition(".")[2]


def _token(pool: str) -> str:
    """Return a pool's name as one token of a subject.

    All bytes except letters, digits, ``-`` and ``_`` are percent-encoded, because spaces, dots and wildcards have a
    meaning in subjects.
    """
    if pool == NO_POOL:
        return "%2D"
    encoded = _OTHER.sub(lambda found: f"%{found[0][0]:02X}".encode("ascii"), pool.encode())
    return encoded.decode("ascii") or NO_POOL
