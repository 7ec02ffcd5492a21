"""Logs why something cannot be observed. As long as the reason stays the same, it is logged only once."""

from __future__ import annotations

import logging

from lbdns_shared.errors import LbdnsError

log = logging.getLogger("lbdns.scaler")


def log_trouble(what: str, error: Exception, before: str) -> str:
    """Return the reason for ``error``. If it differs from ``before``, the previous reason, log ``what`` and the new
    reason."""
    is_expected = isinstance(error, LbdnsError)
    reason = str(error) if is_expected else f"unexpected error: {error!r}"
    if reason != before:
        log.warning("%s: %s", what, reason, exc_info=None if is_expected else error)
    return reason
