"""Turns the errors of the library nats-py into text for operators. Pure."""

from __future__ import annotations

from typing import Final

#: The beginning of a text from a server or from the library -> the text to show, with {} for the original
_TEXTS: Final = {
    "authorization": "the server refuses the credentials ({}); check the user and the password, token or nkey",
    "permissions violation for publish": (
        "the server refuses messages of this program ({}); check the permissions of the user"
    ),
    "permissions violation": "the server refuses the subscription ({}); check the permissions of the user",
    "timeout": "no reply arrived in time",
    "unexpected eof": "the server closed the connection",
    "empty response": "it is not a NATS server",
    "stale connection": "the server no longer responds",
}


def error_text(error: BaseException) -> str:
    """Return the text of one of the library's errors, in one line."""
    text = getattr(error, "verify_message", None) or getattr(error, "strerror", None) or str(error)
    text = " ".join((text or type(error).__name__).removeprefix("nats: ").strip("'").split())
    for beginning, shown in _TEXTS.items():
        if text.lower().startswith(beginning):
            return shown.format(text)
    return text
