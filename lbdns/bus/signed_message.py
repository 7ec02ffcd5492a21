"""Signs the messages that collectors and DNS servers exchange over a bus, and opens them. Pure.

    offset  size  field
    0       4     magic, the ASCII letters LBM1
    4       4     key ID, as in reports
    8       m     body: one msgpack map
    8+m     16    tag: the first 16 bytes of the HMAC-SHA256 of everything before it

The key is derived from a master key and the messages' purpose, so a message cannot pass as one for another purpose, or
as an agent's report.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgpack

from lbdns_shared.keys import MasterKey
from lbdns_shared.report import KEY_ID_LENGTH

MAGIC: Final = b"LBM1"
TAG_LENGTH: Final = 16  # bytes
_HEAD: Final = len(MAGIC) + KEY_ID_LENGTH
LONGEST: Final = 8 * 2**20  # bytes; NATS servers accept 1 MB, unless they are configured otherwise


class RefusedMessageError(ValueError):
    """Raised for a message that is not accepted. ``reason`` is "malformed" or "bad_tag"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class MessageKeys:
    """The keys for messages of one purpose. The first signs; all are accepted, for key rotation."""

    def __init__(self, masters: Sequence[MasterKey], purpose: str) -> None:
        """``masters`` must contain at least one key before a message is signed."""
        self._keys = {master.key_id: master.message_key(purpose) for master in masters}

    def seal(self, body: Mapping[str, Any]) -> bytes:
        """Return the signed message with ``body``, which must be plain data."""
        key_id, key = next(iter(self._keys.items()))
        message: bytes = MAGIC + key_id + msgpack.packb(body)
        return message + _tag(key, message)

    def open(self, message: bytes) -> dict[Any, Any]:
        """Return the body of a signed message, which is decoded after the tag has been checked.

        Raises RefusedMessageError.
        """
        if not _HEAD + TAG_LENGTH < len(message) <= LONGEST or not message.startswith(MAGIC):
            raise RefusedMessageError("malformed")
        key = self._keys.get(message[len(MAGIC) : _HEAD])
        if key is None or not hmac.compare_digest(_tag(key, message[:-TAG_LENGTH]), message[-TAG_LENGTH:]):
            raise RefusedMessageError("bad_tag")
        try:
            body = msgpack.unpackb(message[_HEAD:-TAG_LENGTH], strict_map_key=False)
        except (ValueError, msgpack.UnpackException, RecursionError):
            raise RefusedMessageError("malformed") from None
        if not isinstance(body, dict):
            raise RefusedMessageError("malformed")
        return body


def _tag(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, hashlib.sha256)[:TAG_LENGTH]
