"""Publishes this server's answers on a bus several times per second, and counts those of the other servers."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from lbdns.bus.bus_connection import BusConnection, BusError, BusSubscription
from lbdns.bus.signed_message import MessageKeys
from lbdns.config import Config
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.other_answers import OtherAnswers
from lbdns.process.apply_configuration import PreparedChange
from lbdns.process.background_tasks import end_task
from lbdns.process.duty_cycle import DutyCycle
from lbdns.server.answer_sharing.answer_messages import (
    MAX_SECONDS,
    PURPOSE,
    SUBJECT,
    AnswerCounts,
    AnswerMessage,
    in_messages,
)
from lbdns.server.answer_sharing.heard_servers import HeardServers
from lbdns.server.dns_service import Answerer
from lbdns_shared.keys import MasterKey

if TYPE_CHECKING:
    from nats.aio.msg import Msg

log = logging.getLogger("lbdns.bus")

#: Four messages per second, like the answers that a server's own processes share; at most 2 % of a core
SHARING: Final = DutyCycle(50.0, shortest=0.25)
NO_COUNTS: Final[AnswerCounts] = {}


class AnswerExchange:
    """The part of a DNS server that shares its answers. Without ``[bus] share_answers``, it does nothing."""

    def __init__(self, bus: BusConnection, answerer: Answerer, config: Config, keys: Sequence[MasterKey]) -> None:
        self._bus, self._answerer = bus, answerer
        self._keys = MessageKeys(keys, PURPOSE)
        self.servers = HeardServers(self._keys, secrets.randbits(63))
        self._is_wanted = _is_wanted(config)
        self._name, self._seq = socket.gethostname(), 0
        self._published = (NO_COUNTS, 0.0)  # the totals in the messages so far, and since when (monotonic seconds)
        self._heard: frozenset[int] = frozenset()
        self._task: asyncio.Task[None] | None = None
        self._subscription: BusSubscription | None = None
        self._is_started = False

    @property
    def is_on(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        """Share answers from now on, if the configuration says so."""
        self._is_started = True
        if not self._is_wanted or self.is_on:
            return
        self._published = (self._answerer.answers_by_policy(), time.monotonic())
        self._subscription = self._bus.subscribe(SUBJECT, self._receive)
        self._task = asyncio.get_running_loop().create_task(self._publish_forever())

    async def stop(self) -> None:
        """Stop sharing. The other servers no longer count after a second."""
        self._is_started = False
        await self._leave()

    async def prepare(self, new: CheckedConfiguration) -> PreparedChange:
        """Return a change that shares answers if ``new`` says so, and uses the keys of ``new``."""

        def commit() -> None:
            self._keys = self.servers.keys = MessageKeys(new.keys, PURPOSE)
            self._is_wanted = _is_wanted(new.farm.config)

        async def finish() -> None:
            if not self._is_wanted:
                await self._leave()
            elif self._is_started:
                self.start()

        return PreparedChange("answers on the bus", commit, finish)

    def document(self) -> dict[str, Any] | None:
        """Return the state for status documents, or None if this server does not share its answers."""
        if not self.is_on:
            return None
        problem = self.problem
        return {
            "connected": not problem,
            "problem": problem,
            "servers": self.servers.documents(time.monotonic()),
            "counts": dict(self.servers.counts),
        }

    @property
    def problem(self) -> str:
        """Return why the answers are not shared, or an empty string."""
        client = self._bus.client
        if client is None:
            return self._bus.state.problem
        refused = (client.refused.get((what, SUBJECT)) for what in ("subscription", "publish"))
        return next((text for text in refused if text), "")

    async def _leave(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        if self._subscription:
            self._subscription.end()
        await end_task(task)
        self._hear(frozenset())

    async def _publish_forever(self) -> None:
        while True:
            began = time.monotonic()
            try:
                self._hear(self.servers.heard(began))
                await self._publish(began)
            except Exception:
                log.exception("bus: the answers cannot be published")
            await asyncio.sleep(SHARING.pause_after(time.monotonic() - began))

    async def _publish(self, now: float) -> None:
        """Publish the answers since the last message. If they cannot be published, the next message contains them."""
        (before, since), totals = self._published, self._answerer.answers_by_policy()
        if now - since > MAX_SECONDS:  # after a long interruption, old answers do not matter any more
            before, since = totals, now
            self._published = before, since
        if self._bus.client is None:
            return
        counts = {key: count - had for key, count in totals.items() if count > (had := before.get(key, 0))}
        heard = self.servers.sending(now)
        for part in in_messages(counts):
            self._seq += 1  # even if the message cannot be published: the receivers then notice that one was lost
            message = AnswerMessage(self._name, self.servers.boot, self._seq, time.time(), now - since, heard, part)
            try:
                await self._bus.publish(SUBJECT, self._keys.seal(message.body()))
            except BusError as error:
                log.debug("bus: the answers cannot be published: %s", error)
                return
            before = {**before, **{key: totals[key] for key in part}}
            self._published = before, since  # a part that has been published must not be part of a later message
        self._published = totals, now

    async def _receive(self, message: Msg) -> None:
        found = self.servers.take(message.data, time.monotonic(), time.time())
        if found is not None and self.is_on:
            self._heard = found.heard
            self._answerer.count_others(found)

    def _hear(self, heard: frozenset[int]) -> None:
        """Note which servers have fallen silent."""
        if heard != self._heard:
            self._heard = heard
            self._answerer.count_others(OtherAnswers(heard))


def _is_wanted(config: Config) -> bool:
    return bool(config.bus.url) and config.bus.share_answers
