"""The exception for a connection to a NATS server that has failed."""

from __future__ import annotations


class BusError(Exception):
    """Raised if a connection to a NATS server has failed. The message is the reason.

    If ``is_refusal`` is true, the server is well but refuses this client, so trying again soon would only burden it.
    """

    def __init__(self, reason: str, is_refusal: bool = False) -> None:
        super().__init__(reason)
        self.is_refusal = is_refusal
