"""The other DNS servers that state their answers over a bus: checks their messages, and knows who is heard. Sans-I/O.

A server's answers count only once one of its messages has contained the random number of this server's own run. This
proves that the message is not older than this run, so recorded messages cannot be replayed to a server that restarts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from lbdns.bus.signed_message import MessageKeys, RefusedMessageError
from lbdns.model.other_answers import OtherAnswers
from lbdns.server.answer_sharing.answer_messages import (
    MAX_LENGTH,
    MAX_RATE,
    MAX_SERVERS,
    MAX_SKEW,
    AnswerMessage,
    read_answer_message,
)

SILENT_AFTER: Final = 1.0  # seconds without a message after which a server no longer counts: four of its periods
LATE: Final = 0.5  # seconds by which a message may be later than the one before it
FORGET: Final = 120.0  # seconds after which a silent server is forgotten; the clock check refuses its messages then
RESULTS: Final = ("accepted", "unconfirmed", "lost", "malformed", "bad_tag", "clock", "replay", "implausible")


@dataclass(slots=True)
class _Server:
    name: str
    seq: int
    arrived: float  # monotonic seconds, of its newest message
    confirmed: bool = False  # whether it has heard this server's present run
    answers: int = 0  # so far


class HeardServers:
    """The servers whose messages arrive. ``boot`` identifies this server's own run. Times are in monotonic seconds."""

    def __init__(self, keys: MessageKeys, boot: int) -> None:
        self.keys, self.boot = keys, boot
        #: Messages by result; "lost" counts messages that never arrived, as far as it is known
        self.counts = Counter(dict.fromkeys(RESULTS, 0))
        self._servers: dict[int, _Server] = {}  # by boot

    def heard(self, now: float) -> frozenset[int]:
        """Return the runs of the servers whose answers count."""
        return frozenset(boot for boot, server in self._servers.items() if server.confirmed and _is_alive(server, now))

    def sending(self, now: float) -> tuple[int, ...]:
        """Return the runs of all servers whose messages arrive, whether or not their answers count already."""
        return tuple(boot for boot, server in self._servers.items() if _is_alive(server, now))

    def documents(self, now: float) -> list[dict[str, Any]]:
        """Return the servers whose answers count as plain data, by name."""
        heard = self.heard(now)
        found = sorted((server.name, boot, server) for boot, server in self._servers.items() if boot in heard)
        return [
            {"name": name, "age_s": round(now - server.arrived, 3), "answers": server.answers}
            for name, _, server in found
        ]

    def take(self, data: bytes, now: float, wall: float) -> OtherAnswers | None:
        """Receive a message. Return the answers in it if they count, or None. Never raises.

        ``wall`` is in Unix seconds.
        """
        message = self._open(data, wall)
        if message is None or message.boot == self.boot:
            return None
        server = self._servers.get(message.boot)
        if server is None:
            server = self._new_server(message, now)
            if server is None:
                return None
        elif message.seq <= server.seq:
            self.counts["replay"] += 1
            return None
        self.counts["lost"] += message.seq - server.seq - 1
        seconds = min(message.seconds, now - server.arrived + LATE)
        server.seq, server.arrived = message.seq, now
        server.confirmed = server.confirmed or self.boot in message.heard
        if not server.confirmed:
            self.counts["unconfirmed"] += 1
            return None
        total = sum(message.counts.values())
        if total > MAX_RATE * seconds:
            self.counts["implausible"] += 1
            return None
        self.counts["accepted"] += 1
        server.answers += total
        counts: dict[tuple[str, str], dict[str, int]] = {}
        for (pool, policy, member), count in message.counts.items():
            counts.setdefault((pool, policy), {})[member] = count
        return OtherAnswers(self.heard(now), message.boot, seconds, counts)

    def _open(self, data: bytes, wall: float) -> AnswerMessage | None:
        try:
            if len(data) > MAX_LENGTH:
                raise RefusedMessageError("malformed")
            message = read_answer_message(self.keys.open(data))
        except RefusedMessageError as error:
            self.counts[error.reason] += 1
        except ValueError:
            self.counts["malformed"] += 1
        else:
            if abs(message.time - wall) <= MAX_SKEW:
                return message
            self.counts["clock"] += 1
        return None

    def _new_server(self, message: AnswerMessage, now: float) -> _Server | None:
        self._servers = {boot: each for boot, each in self._servers.items() if now - each.arrived < FORGET}
        if len(self._servers) >= MAX_SERVERS:
            return None
        server = self._servers[message.boot] = _Server(message.server, message.seq - 1, now)
        return server


def _is_alive(server: _Server, now: float) -> bool:
    return now - server.arrived < SILENT_AFTER
