"""The load generator's clients, which run closed and open loops of DNS lookups, connections and HTTP requests."""

from __future__ import annotations

import math
from functools import partial
from random import Random
from typing import Final

from lbdns_shared.endpoint import Endpoint
from lbdns_tools.load.epoll_loop import OutOfTimeError, TimeLimits, pause
from lbdns_tools.load.http_connection import HttpConnection, LoadConnections, RequestError, StaleError
from lbdns_tools.load.http_response import HttpResponse, request_bytes
from lbdns_tools.load.load_plan import ClosedLoop, LoadRun, OpenLoop, arrivals
from lbdns_tools.load.process_measurements import StartLateness
from lbdns_tools.load.request_mix import RequestTarget
from lbdns_tools.load.request_tally import RequestTally
from lbdns_tools.load.stub_resolver import ClientNames, StubResolver
from lbdns_tools.load.tls_connection import TlsConnection, tls_context

_AT_ONCE: Final = 16  # late requests started before responses are handled again
_OUT_OF_PORTS_S: Final = 0.01  # pause of a client after a local failure, which is reported at once


class RequestTimings:
    """A request in progress: its times, its server, its status, and the number of bytes received."""

    __slots__ = ("bytes", "cause", "connect_s", "dns_s", "first_byte_at", "resolving", "sent_at", "server", "status",
                 "tls_s")  # fmt: skip

    def __init__(self) -> None:
        self.bytes = 0
        self.connect_s = self.dns_s = self.tls_s = 0.0
        self.server = ""
        self.cause = ""  # of a failure of the kind "local"
        self.status = 0  # of the complete response; 0 if there is none
        self.sent_at = self.first_byte_at = 0.0
        self.resolving = 0.0  # start of the lookup under way; 0 if there is none


class LoadClient:
    """One closed-loop client, or all clients of an open loop, with a name cache and a pool of idle connections."""

    __slots__ = ("_kept", "names")

    def __init__(self, names: ClientNames) -> None:
        self.names = names
        self._kept: dict[tuple[str, int], list[HttpConnection]] = {}  # by address or name and port

    def take(self, use: tuple[str, int]) -> HttpConnection | None:
        """Remove and return the most recently used idle connection that is still open, or None if there is none."""
        kept = self._kept.get(use)
        while kept:
            connection = kept.pop()
            if connection.is_open:
                return connection
        return None

    def keep(self, use: tuple[str, int], connection: HttpConnection) -> None:
        """Keep ``connection`` for later requests if it is still open and idle."""
        if connection.is_idle:
            self._kept.setdefault(use, []).append(connection)


class ClientCrowd:
    """All load clients in one process, and the tally of their requests."""

    def __init__(
        self, run: LoadRun, sockets: LoadConnections, resolver: StubResolver | None, fixed: dict[str, str]
    ) -> None:
        loop = sockets.loop
        self._loop, self._run = loop, run
        self._sockets, self._resolver, self._fixed = sockets, resolver, fixed
        self._limits = TimeLimits(loop, run.timeout_s)
        self._waiting = TimeLimits(loop, run.timeout_s)  # tasks that wait for one of max_connections
        secured = any(target.tls for phase in run.phases for target in phase.mix.targets)
        self._context = tls_context(run.ca_file, run.insecure) if secured else None
        self._requests: dict[RequestTarget, bytes] = {}
        self._by_name = run.resolve.mode == "connection"
        self._shows_ports = len({target.port for phase in run.phases for target in phase.mix.targets}) > 1
        self.tally = RequestTally()
        self.lateness = StartLateness(run.warm_up_s, run.seconds)
        self.done = self.failed = self.under_way = self.held_back = 0
        self.ok_in_window = 0  # successes between the end of the warm-up and the end of sending
        self.last_ok = self.last_end = 0.0  # seconds of the run
        self._begin = self._window = self._end = 0.0

    def start(self, begin: float) -> None:
        """Schedule all phases. The run begins when the loop's clock reaches ``begin``, and ends when no task is
        left."""
        self._begin = begin
        self._window, self._end = begin + self._run.warm_up_s, begin + self._run.seconds
        for place, phase in enumerate(self._run.phases):
            if isinstance(phase.load, OpenLoop):
                self._loop.start(self._run_open_loop(place, phase.load, begin + phase.begin_s))
                continue
            budget = [phase.load.requests or math.inf]
            for number in range(phase.load.clients):
                chance = Random(f"client {self._run.seed} {place} {number * self._run.parts + self._run.part}")
                self._loop.start(self._run_client(place, phase.load, begin + phase.begin_s, chance, budget))

    def _client(self, chance: Random) -> LoadClient:
        return LoadClient(ClientNames(self._loop, self._resolver, self._run.resolve, self._fixed, chance))

    async def _run_client(
        self, place: int, load: ClosedLoop, begin: float, chance: Random, budget: list[float]
    ) -> None:
        """Run one client of a closed loop.

        ``budget`` contains the total number of requests that the loop's clients may still send.
        """
        loop, clock = self._loop, self._loop.clock
        client, choose = self._client(chance), self._run.phases[place].mix.chooser(chance)
        end = begin + (load.seconds or math.inf)
        await loop.sleep_until(begin)
        while (now := clock()) < end and budget[0] > 0:
            budget[0] -= 1
            error = await self._once(choose(), client, now)
            if error or load.think_s:
                # A client that fails at once must not keep the other clients from running
                after = load.think_s or (_OUT_OF_PORTS_S if error == "local" else 0.0)
                await loop.sleep_until(clock() + after)

    async def _run_open_loop(self, place: int, load: OpenLoop, begin: float) -> None:
        """Start each request of an open loop at its due time, or as soon as possible afterwards."""
        loop, clock = self._loop, self._loop.clock
        chance = Random(f"mix {self._run.seed} {place} {self._run.part}")
        choose = self._run.phases[place].mix.chooser(chance, self._run.part, self._run.parts)
        client = self._client(chance)
        at_once = 0
        # Every process draws the same random numbers and takes its own part of the sequence
        for start in arrivals(load, Random(f"arrivals {self._run.seed} {place}"), self._run.part, self._run.parts):
            intended = begin + start
            at_once += 1
            if intended > clock() or at_once > _AT_ONCE:
                at_once = 0
                await loop.sleep_until(intended)
            loop.start(self._once(choose(), client, intended))

    async def _once(self, target: RequestTarget, client: LoadClient, intended: float) -> str:
        """Send one request and count the result. Return the kind of failure, or "" on success."""
        timings, error = RequestTimings(), ""
        clock = self._loop.clock
        if self._run.max_connections and self.under_way >= self._run.max_connections:
            self.held_back += 1
            task = self._waiting.begin()
            try:
                await pause()
            except OutOfTimeError:
                timings.cause = "connection"
                self._count(timings, "local", intended, intended, clock())
                return "local"
            finally:
                self._waiting.end(task)
        else:
            self.under_way += 1
        start = clock()
        task = self._limits.begin()
        try:
            await self._fetch(target, client, timings)
        except RequestError as failure:
            error, timings.cause = failure.kind, failure.cause
        except OutOfTimeError:
            error = "timeout"
        finally:
            self._limits.end(task)
            self._give_turn()
        end = clock()
        if timings.resolving:
            timings.dns_s = end - timings.resolving
            error = "dns" if error == "timeout" else error
        self._count(timings, error, intended, start, end)
        return error

    async def _fetch(self, target: RequestTarget, client: LoadClient, timings: RequestTimings) -> None:
        """Look up the target's host, connect, send the request, and read the response. Raises RequestError."""
        connection: HttpConnection | None = None
        use = (target.host, target.port)
        if self._by_name:
            connection = client.take(use)
        if connection is None:
            address = client.names.known(target.host)
            if address is None:
                timings.resolving = self._loop.clock()
                address = await client.names.look_up(target.host)
                timings.dns_s = self._loop.clock() - timings.resolving
                timings.resolving = 0.0
            if not self._by_name:
                # Connections with TLS belong to the name in the server's certificate
                use = (f"{address} {target.host}" if target.tls else address, target.port)
                connection = client.take(use)
            if connection is None:
                connection = self._connect(address, target, timings)
        timings.server = self._server(connection.address, target.port)
        response = HttpResponse()
        try:
            await self._exchange(connection, target, response, timings)
        except StaleError:
            self.tally.retried += 1
            connection, response = self._connect(connection.address, target, timings), HttpResponse()
            await self._exchange(connection, target, response, timings)
        client.keep(use, connection)
        if response.status >= 400:
            raise RequestError("4xx" if response.status < 500 else "5xx", str(response.status))
        if target.expect is not None and response.bytes != target.expect:
            raise RequestError("protocol", f"the body must have {target.expect} bytes, but has {response.bytes}")

    def _connect(self, address: str, target: RequestTarget, timings: RequestTimings) -> HttpConnection:
        try:
            if self._context is None or not target.tls:
                return self._sockets.connect(address, target.port)
            secure = partial(TlsConnection, context=self._context, host=target.host)
            return self._sockets.connect(address, target.port, secure)
        except RequestError as failure:
            if failure.kind != "local":
                timings.server = self._server(address, target.port)
            raise

    def _server(self, address: str, port: int) -> str:
        return str(Endpoint(address, port)) if self._shows_ports else address

    async def _exchange(
        self, connection: HttpConnection, target: RequestTarget, response: HttpResponse, timings: RequestTimings
    ) -> None:
        request = self._requests.get(target)
        if request is None:
            request = self._requests[target] = request_bytes(target, self._run.keep_alive)
        is_fresh = not connection.used
        try:
            await connection.exchange(request, response)
        finally:
            timings.bytes += response.bytes
            if is_fresh:
                timings.connect_s, timings.tls_s = connection.connect_s, connection.tls_s
        timings.status = response.status
        timings.sent_at, timings.first_byte_at = connection.sent_at, connection.first_byte_at

    def _count(self, timings: RequestTimings, error: str, intended: float, start: float, end: float) -> None:
        """Count a request. Latency excludes the DNS lookup, unless the lookup failed.

        Latency is measured from the time at which the request was due.
        """
        self.done += 1
        self.failed += error != ""
        self.last_end = end - self._begin
        if not error:
            self.last_ok = self.last_end
            if self._window <= end < self._end:
                self.ok_in_window += 1
        if intended < self._window:
            return
        due_s, late_s = intended - self._begin, max(0.0, start - intended)
        self.lateness.add(due_s, late_s)
        latency_s = end - intended if error == "dns" else end - intended - timings.dns_s
        self.tally.add(due_s, latency_s, timings.dns_s, timings.connect_s, timings.bytes, timings.server, error, late_s)
        if timings.status:
            response_s = timings.first_byte_at - timings.sent_at
            self.tally.add_response(timings.status, response_s, end - timings.first_byte_at)
        if timings.tls_s:
            self.tally.tls.add(timings.tls_s)
        if error == "local":
            self.tally.add_local(timings.cause)

    def _give_turn(self) -> None:
        """After a request completes, resume the request that has waited longest, if any is waiting."""
        if self._waiting.under_way:
            task, _ = self._waiting.under_way.popitem(last=False)
            self._loop.call_at(self._loop.clock(), task.resume)
        else:
            self.under_way -= 1
