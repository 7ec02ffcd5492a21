"""Relays a limited number of queries to upstream servers. Clients that ask the same question share one answer."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from typing import Final

from lbdns.answering.dns_constants import RA, Rcode
from lbdns.answering.message_writer import ResponseBody
from lbdns.answering.relayed_query import RelayedQuery, UpstreamQuestion, relayed_body, upstream_question
from lbdns.answering.responder import Responder
from lbdns.answering.upstream_response import UpstreamResponse
from lbdns.config import Config, ForwardConfig
from lbdns.config.forward_section import is_loopback, loops
from lbdns.server.forwarding.upstreams import Upstreams
from lbdns.server.query_log.query_sampler import Reply
from lbdns.server.transport.error_counter import ErrorCounter
from lbdns_shared.errors import ConfigError

MAX_WAITING: Final = 1000  # queries of all clients that may wait for an upstream; each may hold a socket
MAX_PER_NETWORK: Final = 100  # waiting queries of one network, so that it leaves room for others
_PREFIXES: Final = {4: 24, 6: 56}  # bits: clients with the same prefix are one network
_REFUSED: Final = ResponseBody(RA | Rcode.REFUSED, (0, 0, 0), b"")

#: A waiting query, its client's network, and the function that sends its response.
_Waiting = tuple[RelayedQuery, str, Reply]


class Forwarder:
    """Relays queries in the event loop of one answering process. The owner must call ``stop`` when the forwarder is no
    longer needed."""

    def __init__(self, config: ForwardConfig, responder: Responder) -> None:
        self._config = config
        self._responder = responder
        self._counters: Counter[str] = Counter()
        self._upstreams = Upstreams(config.upstream, self._counters)
        #: Clients with the same question wait for the same answer: an attacker who forges answers has one query to aim
        #: at, not many (RFC 5452 section 5), and a question that loops back to this server goes out once.
        self._waiting: dict[UpstreamQuestion, list[_Waiting]] = {}
        self._clients = 0  # waiting queries
        self._per_network: Counter[str] = Counter()  # waiting queries by network
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors = ErrorCounter()

    def reconfigure(self, config: ForwardConfig) -> None:
        """Send new questions to the upstreams in ``config``. Queries in progress continue with the old upstreams."""
        if config != self._config:
            self._config = config
            self._upstreams.stop()
            self._upstreams = Upstreams(config.upstream, self._counters)

    def stop(self) -> None:
        """Cancel all waiting queries. The waiting clients receive no response."""
        for task in self._tasks:
            task.cancel()
        self._upstreams.stop()

    def counters(self) -> dict[str, int]:
        """Return the counters since startup, keyed by name.

        A query counted as "relayed" has been answered, has failed or is still waiting. A query counted as "limited" has
        been refused. All other counters refer to attempts to query an upstream.
        """
        names = ("relayed", "answered", "failed", "limited", "timeouts", "unreachable", "over_tcp", "ignored")
        return {f"forward_{name}": self._counters[name] for name in names}

    def relay(self, relayed: RelayedQuery, reply: Reply) -> None:
        """Relay a query. ``reply`` is called once with the response, after this method has returned."""
        network = _network(relayed.host)
        if self._clients >= MAX_WAITING or self._per_network[network] >= MAX_PER_NETWORK:
            self._counters["limited"] += 1
            asyncio.get_running_loop().call_soon(self._reply, relayed, reply, _REFUSED)
            return
        self._counters["relayed"] += 1
        self._clients += 1
        self._per_network[network] += 1
        question = upstream_question(relayed)
        waiting = self._waiting.setdefault(question, [])
        waiting.append((relayed, network, reply))
        if len(waiting) == 1:
            task = asyncio.create_task(self._resolve(question))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _resolve(self, question: UpstreamQuestion) -> None:
        response: UpstreamResponse | None = None
        try:
            response = await self._upstreams.ask(question)
        except Exception:
            self._errors.report()
        finally:
            waiting = self._waiting.pop(question)
            self._clients -= len(waiting)
            self._per_network -= Counter(network for _, network, _ in waiting)  # removes networks with no query left
        for relayed, _, reply in waiting:
            body = relayed_body(relayed, response)
            self._counters["failed" if response is None or response.failed else "answered"] += 1
            self._reply(relayed, reply, body)

    def _reply(self, relayed: RelayedQuery, reply: Reply, body: ResponseBody) -> None:
        try:
            reply(self._responder.finish_relayed(relayed, body))
        except OSError:
            pass  # the client's connection, or our socket, is closed
        except Exception:
            self._errors.report()


def _network(host: str) -> str:
    address = ipaddress.ip_address(host.partition("%")[0])
    return str(ipaddress.ip_network(f"{address}/{_PREFIXES[address.version]}", strict=False))


def check_upstreams(config: Config) -> None:
    """Raise ConfigError if an upstream has an address on which this server itself answers queries."""
    if not config.forward.upstream:
        return
    import psutil  # imported here: most servers don't forward, and the import takes 20 ms

    ours = {address.address.partition("%")[0] for links in psutil.net_if_addrs().values() for address in links}
    findings = loops(config.forward.upstream, config.server.listen, lambda host: is_loopback(host) or host in ours)
    lines = [f"{config.path}: [forward] upstream: {finding}" for finding in findings]
    if lines:
        raise ConfigError(*lines)
