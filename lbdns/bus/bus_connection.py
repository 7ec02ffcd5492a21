"""The program's connection to a bus (NATS): keeps it, subscribes anew after each interruption, and publishes.

The library nats-py parses the protocol. It is not asked to reconnect, because its pauses are not random: all the
collectors and agents of a farm would return to a restarted server at the same moment.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from lbdns.bus.bus_error_text import error_text
from lbdns.bus.bus_state import BusState
from lbdns.events.event_log import EventLog
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.process.apply_configuration import PreparedChange
from lbdns.process.background_tasks import end_tasks
from lbdns.secrets.bus_access import BusAccess
from lbdns_shared.bus_url import BusServer
from lbdns_shared.errors import LbdnsError

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from lbdns.bus.nats_client import NatsClient

    #: Receives one message. The library awaits it before it delivers the subscription's next message
    Receive = Callable[[Msg], Awaitable[None]]

log = logging.getLogger("lbdns.bus")

LONGEST_START: Final = 5.0  # seconds until a server has accepted the connection and the subscriptions
LONGEST_PAUSE: Final = 1.0  # seconds between two rounds of attempts; the actual pause is random
AFTER_LOSS: Final = 0.5  # seconds: the maximum random pause after a connection was lost
MOST_WAITING: Final = (
    16 * 2**20
)  # bytes of a subscription that wait; more than the parts of a snapshot that arrive at once
LONGEST_END: Final = 1.0  # seconds for closing a connection


class BusError(LbdnsError):
    """Raised if there is no connection, or if a server refuses what is asked of it. The message is the reason."""


class BusSubscription:
    """A subscription to a subject, which lasts through interruptions of the connection until ``end`` is called."""

    def __init__(self, connection: BusConnection, subject: str, receive: Receive, required: bool) -> None:
        self.subject, self.receive, self.required = subject, receive, required
        self.inner: Subscription | None = None  # on the present connection
        self._connection = connection

    def end(self) -> None:
        """End the subscription. A message that has already arrived may still be delivered."""
        self._connection.forget(self)


class BusConnection:
    """A connection to one of the servers of a bus, which all parts of a program share. Use it in the event loop only.

    It is a part of the program (see ``lbdns.process.apply_configuration``). Without ``[bus]``, it does nothing, and
    its methods may still be called. Subscriptions that begin before ``use`` are made with the first connection.
    """

    def __init__(self, events: EventLog) -> None:
        """Changes of the connection's state are recorded in ``events``."""
        self._events = events
        self._access: BusAccess | None = None
        self._client: NatsClient | None = None  # while a connection is up
        self._subscriptions: list[BusSubscription] = []
        self._watchers: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()  # tasks that have been cancelled
        self._logged: dict[BusServer, str] = {}  # the logged problems since the last connection
        #: The state of the connection; the object stays the same
        self.state = BusState()

    @property
    def is_configured(self) -> bool:
        return self._access is not None

    @property
    def client(self) -> NatsClient | None:
        """The library's client while the connection is up (for JetStream: ``client.jetstream()``), or None.

        The next connection has another client.
        """
        return self._client

    async def prepare(self, new: CheckedConfiguration) -> PreparedChange:
        return PreparedChange("connection to the bus", commit=lambda: self.use(new.bus))

    def use(self, access: BusAccess | None) -> None:
        """Connect to the servers of ``access``. If they and the credentials are the same, keep the connection.

        None closes the connection.
        """
        if access == self._access and (self._task is not None or access is None):
            return
        self._access = access
        self._logged.clear()
        self.state.problem = BusState().problem
        self._cancel()
        if access is not None:
            self._task = asyncio.get_running_loop().create_task(self._run(access))

    async def stop(self) -> None:
        """Close the connection. ``use`` opens another one."""
        self._cancel()
        await asyncio.gather(*self._background, end_tasks(self._ending, already_cancelled=True), return_exceptions=True)

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` whenever a connection is up, with all subscriptions, and whenever one is lost or fails.

        Returns a function that ends this.
        """
        self._watchers.append(callback)
        return lambda: self._watchers.remove(callback)

    def subscribe(self, subject: str, receive: Receive, *, required: bool = False) -> BusSubscription:
        """Call ``receive`` with each message whose subject matches ``subject``, now and on all later connections.

        A connection is of no use without a subscription that is ``required``: if a server refuses it, the connection is
        closed, and another attempt follows. The refusal of another subscription is only recorded.
        """
        subscription = BusSubscription(self, subject, receive, required)
        self._subscriptions.append(subscription)
        if self._client is not None:
            self._later(self._subscribe_now(self._client, subscription))
        return subscription

    def forget(self, subscription: BusSubscription) -> None:
        """End ``subscription``, as ``BusSubscription.end`` does."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            inner, subscription.inner = subscription.inner, None
            if inner and self._client is not None:
                self._later(_unsubscribe(inner))

    async def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Publish a message, which no server confirms. ``reply`` is the subject for replies, if any.

        Raises BusError if there is no connection, or if the message is too long for the server. A server that does not
        permit ``subject`` drops the message; the refusal is recorded once for each connection.
        """
        client = self._connected()
        try:
            await client.publish(subject, payload, reply)
        except Exception as error:  # the library raises many kinds
            raise BusError(error_text(error)) from None

    def _connected(self) -> NatsClient:
        if self._client is None:
            raise BusError(self.state.problem if self.is_configured else "there is no section [bus]")
        return self._client

    def _cancel(self) -> None:
        task, self._task = self._task, None
        self._drop_client()
        if task:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _drop_client(self) -> None:
        """Stop using the present connection, if there is one."""
        client, self._client = self._client, None
        self.state.server = ""
        if client is not None and self._task is None:  # otherwise, ``_note_problem`` follows
            self._tell_watchers()

    def _later(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task), "the work is a coroutine"
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _run(self, access: BusAccess) -> None:
        servers = list(access.servers)
        random.shuffle(servers)
        while True:
            for server in servers:
                try:
                    await self._keep_session(access, server)
                except BusError as error:
                    self._note_problem(server, str(error))
                else:
                    await asyncio.sleep(random.uniform(0.0, AFTER_LOSS))
            await asyncio.sleep(random.uniform(0.1, 1.0) * LONGEST_PAUSE)

    async def _keep_session(self, access: BusAccess, server: BusServer) -> None:
        """Connect, and return when the connection has ended. Raises BusError if it can't be made."""
        from lbdns.bus.nats_client import NatsClient  # most programs have no bus

        client = NatsClient(access, server, on_refusal=self._note_refusal)
        try:
            await self._open(client)
            self._client = client
            self._note_connected(server)
            await client.over.wait()
            if self._client is client:
                self._note_problem(server, client.reason("the connection was lost"))
        finally:
            await client.end(LONGEST_END)

    async def _open(self, client: NatsClient) -> None:
        """Connect and subscribe. Raises BusError."""
        try:
            async with asyncio.timeout(LONGEST_START):
                await client.open(LONGEST_START)
                for subscription in tuple(self._subscriptions):
                    subscription.inner = await _subscribe(client, subscription)
                await client.flush()  # after this, errors about the subscriptions have arrived
        except TimeoutError:
            raise BusError(client.reason("the server did not accept the connection in time")) from None
        except Exception as error:  # the library raises many kinds
            raise BusError(client.reason(error_text(error))) from None
        if refusal := self._refused_requirement(client):
            raise BusError(refusal)
        if client.over.is_set():
            raise BusError(client.reason("the connection was lost"))

    def _refused_requirement(self, client: NatsClient) -> str:
        """Return why the server refuses a required subscription, or an empty string."""
        required = (subscription.subject for subscription in self._subscriptions if subscription.required)
        return next(
            (text for subject in required if (text := client.refused.get(("subscription", subject.lower())))), ""
        )

    async def _subscribe_now(self, client: NatsClient, subscription: BusSubscription) -> None:
        """Make ``subscription``, which is new, on the present connection."""
        try:
            inner = await _subscribe(client, subscription)
            if subscription not in self._subscriptions:  # it has ended meanwhile
                await inner.unsubscribe()
                return
            subscription.inner = inner
            await client.flush()
        except Exception as error:
            # The next connection makes the subscription
            log.debug("bus: cannot subscribe to %s: %s", subscription.subject, error_text(error))
        if refusal := self._refused_requirement(client):
            await client.end(LONGEST_END, refusal)

    def _note_connected(self, server: BusServer) -> None:
        self.state.server, self.state.problem = str(server), ""
        self._logged.clear()
        self._record(f"bus {server}: connected", logging.INFO)
        self._tell_watchers()

    def _note_problem(self, server: BusServer, reason: str) -> None:
        self._drop_client()
        self.state.problem = f"{server}: {reason}"
        if self._logged.get(server) != reason:
            self._logged[server] = reason
            self._record(f"bus {self.state.problem}; nothing arrives from the bus; lbdns keeps trying")
        self._tell_watchers()

    def _note_refusal(self, server: BusServer, reason: str) -> None:
        """Record that a server refuses a subject. The connection is still of use for other subjects."""
        if self._client is not None:
            self._record(f"bus {server}: {reason}")

    def _tell_watchers(self) -> None:
        for callback in tuple(self._watchers):
            callback()

    def _record(self, text: str, level: int = logging.WARNING) -> None:
        self._events.record("reports", text, level=level, logger=log.name)


async def _subscribe(client: NatsClient, subscription: BusSubscription) -> Subscription:
    return await client.subscribe(subscription.subject, cb=subscription.receive, pending_bytes_limit=MOST_WAITING)


async def _unsubscribe(inner: Subscription) -> None:
    try:
        await inner.unsubscribe()
    except Exception as error:
        log.debug("bus: cannot unsubscribe: %s", error_text(error))  # the connection has ended
