"""Tests of the text of errors from the library nats-py."""

from __future__ import annotations

import pytest
from nats import errors

from lbdns.bus.bus_error_text import error_text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            errors.Error("nats: 'Authorization Violation'"),
            "the server refuses the credentials (Authorization Violation); check the user and the password, token or "
            "nkey",
        ),
        (errors.AuthorizationError(), "the server refuses the credentials (authorization failed)"),
        (
            errors.Error('nats: Permissions Violation for Subscription to "a"'),
            'the server refuses the subscription (Permissions Violation for Subscription to "a"); '
            "check the permissions of the user",
        ),
        (
            errors.Error('nats: permissions violation for publish to "a"'),
            'the server refuses messages of this program (permissions violation for publish to "a"); check',
        ),
        (errors.TimeoutError(), "no reply arrived in time"),
        (errors.UnexpectedEOF(), "the server closed the connection"),
        (errors.StaleConnectionError(), "the server no longer responds"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (TimeoutError(), "no reply arrived in time"),
        (errors.Error("nats: two\nlines"), "two lines"),
    ],
)
def test_texts(error: Exception, text: str) -> None:
    assert error_text(error).startswith(text)
