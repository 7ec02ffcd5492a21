"""Tests of logging why something cannot be observed: once for as long as the reason stays the same."""

from __future__ import annotations

import logging

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.trouble import log_trouble


@pytest.mark.parametrize(
    ("error", "before", "reason", "is_logged", "has_traceback"),
    [
        (LbdnsError("no route"), "", "no route", True, False),
        (LbdnsError("no route"), "timeout", "no route", True, False),
        (LbdnsError("no route"), "no route", "no route", False, False),
        (KeyError("id"), "", "unexpected error: KeyError('id')", True, True),
        (KeyError("id"), "unexpected error: KeyError('id')", "unexpected error: KeyError('id')", False, False),
    ],
)
def test_a_reason_is_logged_until_it_is_known(
    caplog: pytest.LogCaptureFixture, error: Exception, before: str, reason: str, is_logged: bool, has_traceback: bool
) -> None:
    with caplog.at_level(logging.WARNING, "lbdns.scaler"):
        assert log_trouble("cannot observe the servers", error, before) == reason
    assert [record.getMessage() for record in caplog.records] == [f"cannot observe the servers: {reason}"] * is_logged
    assert any(record.exc_info for record in caplog.records) == has_traceback
