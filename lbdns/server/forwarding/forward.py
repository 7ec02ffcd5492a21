"""Forwarding: who waits for which question, how many may, and what they are told."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable
from typing import Final

from lbdns.answering.constants import RA, Rcode
from lbdns.answering.errand import Relay
from lbdns.answering.heard import Heard
from lbdns.answering.message import Body
from lbdns.answering.relay import Question, hand_on, question_of
from lbdns.answering.respond import Responder
from lbdns.config import Config, ForwardConfig
from lbdns.config.forward import is_loopback, loops
from lbdns.errors import ConfigError
from lbdns.server.forwarding.upstreams import Upstreams
from lbdns.server.net.mistakes import Mistakes

MAX_WAITING: Final = 1000  # queries of all clients that wait for an upstream; each may hold a socket
MAX_PER_NETWORK: Final = 100  # of them, so that one network leaves room for others
_PREFIXES: Final = {4: 24, 6: 56}  # bits: one network, as far as this counting goes
_REFUSED: Final = Body(RA | Rcode.REFUSED, (0, 0, 0), b"")

Reply = Callable[[bytes], None]
#: A query that waits, the network it came from, and what sends its response.
_Waiting = tuple[Relay, str, Reply]


class Forwarder:
    """Relays the queries of one answering process. To be used inside the event loop."""

    def __init__(self, config: ForwardConfig, responder: Responder) -> None:
        self._config = config
        self._responder = responder
        self._counters: Counter[str] = Counter()
        self._upstreams = Upstreams(config.upstream, self._counters)
        #: Clients that ask the same wait for the same answer: a guesser has one query to aim at, not many
        #: (RFC 5452 section 5), and a question that comes back to us in a loop goes out once.
        self._waiting: dict[Question, list[_Waiting]] = {}
        self._clients = 0  # who wait
        self._per_network: Counter[str] = Counter()  # the same by network
        self._tasks: set[asyncio.Task[None]] = set()
        self._mistakes = Mistakes()

    def reconfigure(self, config: ForwardConfig) -> None:
        """Ask other upstreams from now on; what waits is still answered by the old ones."""
        if config != self._config:
            self._config = config
            self._upstreams.stop()
            self._upstreams = Upstreams(config.upstream, self._counters)

    def stop(self) -> None:
        """Ask nobody any more; those who wait hear nothing."""
        for task in self._tasks:
            task.cancel()
        self._upstreams.stop()

    def counters(self) -> dict[str, int]:
        """What happened so far. ``relayed`` = ``answered`` + ``failed`` + those who wait; the rest counts tries."""
        names = ("relayed", "answered", "failed", "limited", "timeouts", "unreachable", "over_tcp", "ignored")
        return {f"forward_{name}": self._counters[name] for name in names}

    def relay(self, relay: Relay, reply: Reply) -> None:
        """Have a query answered: ``reply`` is called with the response, once, never before this returns."""
        network = _network(relay.host)
        if self._clients >= MAX_WAITING or self._per_network[network] >= MAX_PER_NETWORK:
            self._counters["limited"] += 1
            asyncio.get_running_loop().call_soon(self._tell, relay, reply, _REFUSED)
            return
        self._counters["relayed"] += 1
        self._clients += 1
        self._per_network[network] += 1
        question = question_of(relay)
        waiting = self._waiting.setdefault(question, [])
        waiting.append((relay, network, reply))
        if len(waiting) == 1:
            task = asyncio.create_task(self._find(question))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _find(self, question: Question) -> None:
        """Ask for all who wait for this question, and tell them."""
        heard: Heard | None = None
        try:
            heard = await self._upstreams.ask(question)
        except Exception:
            self._mistakes.report()
        finally:
            waiting = self._waiting.pop(question)
            for _, network, _ in waiting:
                self._leave(network)
        for relay, _, reply in waiting:
            body = hand_on(relay, heard)
            self._counters["failed" if heard is None or heard.failed else "answered"] += 1
            self._tell(relay, reply, body)

    def _leave(self, network: str) -> None:
        self._clients -= 1
        self._per_network[network] -= 1
        if not self._per_network[network]:
            del self._per_network[network]

    def _tell(self, relay: Relay, reply: Reply, body: Body) -> None:
        try:
            reply(self._responder.hand_back(relay, body))
        except OSError:
            pass  # the client, or our socket, is gone
        except Exception:
            self._mistakes.report()


def _network(host: str) -> str:
    """The network whose clients share a limit."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return str(ipaddress.ip_network(f"{address}/{_PREFIXES[address.version]}", strict=False))


def check_upstreams(config: Config) -> None:
    """Refuse upstreams that are this server itself, by an address of this machine. Raises ConfigError."""
    if not config.forward.upstream:
        return
    import psutil  # here: most servers don't forward, and it takes 20 ms

    ours = {address.address.partition("%")[0] for links in psutil.net_if_addrs().values() for address in links}
    findings = loops(config.forward.upstream, config.server.listen, lambda host: is_loopback(host) or host in ours)
    lines = [f"{config.path}: [forward] upstream: {finding}" for finding in findings]
    if lines:
        raise ConfigError(*lines)
