"""Protocol errors: turns aiohttp's tracebacks about malformed requests into counted, rate-limited log lines."""

from __future__ import annotations

import logging
import re
from typing import Final

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import PayloadAccessError, RequestPayloadError

from lbdns_collector.web.access_control import AccessControl

MAX_DETAIL: Final = 100  # characters
_CLIENT_ERRORS: Final = (HttpProcessingError, RequestPayloadError, PayloadAccessError)


class _ProtocolErrorFilter(logging.Filter):
    """A log filter that counts errors caused by clients and drops their log records.

    AccessControl logs these errors instead.

    The filter keeps all other records.

    """

    def __init__(self, access: AccessControl) -> None:
        super().__init__()
        self._access = access

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, ConnectionError):
            return False  # the client has disconnected before it has read the response
        if not isinstance(error, _CLIENT_ERRORS):
            return True
        address = str(record.args[0]) if isinstance(record.args, tuple) and record.args else "a client"
        self._access.refuse("malformed", address, _first_line(error))
        return False


def protocol_error_logger(access: AccessControl) -> logging.Logger:
    """Return the logger that aiohttp's request handlers must use."""
    parent = logging.getLogger("lbdns.web")
    logger = logging.Logger(parent.name)  # one for each server, because the filter belongs to the server's access rules
    logger.parent = parent
    logger.addFilter(_ProtocolErrorFilter(access))
    return logger


def _first_line(error: BaseException) -> str:
    text = error.message if isinstance(error, HttpProcessingError) else str(error)
    return re.sub(r"\s+", " ", text)[:MAX_DETAIL]
