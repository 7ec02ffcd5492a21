"""Clients that keep connections open: idle clients, slow senders, and clients that never read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from lbdns_tools.bench.dns.latency_prober import query_wire
from lbdns_tools.faults.fault import Fault
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import FarmPlan
from lbdns_tools.faults.prober import TIMELY_S, Prober, judge, tcp_is_answered
from lbdns_tools.faults.server_processes import no_descriptors
from lbdns_tools.faults.slow_clients import Connections, control_clients_that_never_read, held

IDLE_TCP: Final = 10_000
IDLE_HTTP: Final = 5_000
SLOW: Final = 300
CONTROL: Final = 32
HELD_S: Final = 6.0  # s for which the connections are held after all of them are open
LATENCY_MS: Final = 150.0  # p99 of DNS answers beside clients that never read; generous, since machines are shared
_HEAD: Final = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nX-Long: "
_COMMAND: Final = b'{"command": "explain", "name": "best.hobbit"}\n'
_QUERY: Final = query_wire("best.hobbit")


def idle_tcp(bed: FaultBed) -> None:
    with Prober(tcp_is_answered(bed)) as prober:
        bed.begin()
        with contextlib.closing(Connections(bed.farm.port, IDLE_TCP)) as clients:
            with held(clients, b"", b"", 0.5):
                bed.keep(HELD_S)
            bed.notes["connections"] = clients.opened
        bed.ease()
    judge(bed, prober, "queries over TCP")
    bed.recovers(tcp_is_answered(bed), "TCP is answered")
    bed.recovers(bed.is_healthy, "/healthz responds with 200")


def slow_tcp(bed: FaultBed) -> None:
    message = len(_QUERY).to_bytes(2, "big") + _QUERY
    with Prober(tcp_is_answered(bed)) as prober, contextlib.closing(Connections(bed.farm.port, 1500)) as clients:
        bed.begin()
        with held(clients, message[:3], message[3:], 0.5):
            bed.keep(HELD_S)
        bed.ease()
    judge(bed, prober, "queries over TCP")
    bed.recovers(tcp_is_answered(bed), "TCP is answered")


def http_clients(count: int, is_local: bool, beginning: bytes, dribble: bytes) -> Callable[[FaultBed], None]:
    def run(bed: FaultBed) -> None:
        pages = Prober(lambda: bed.farm.get("/api/v1/status", TIMELY_S)[0] == 200)
        health = Prober(lambda: bed.farm.get("/healthz", TIMELY_S)[0] == 200)
        with pages, health:
            bed.begin()
            clients = Connections(bed.farm.http_port, count, is_local)
            with contextlib.closing(clients), held(clients, beginning, dribble, 0.1):
                bed.keep(HELD_S)
            bed.ease()
        judge(bed, health, "/healthz")
        if not is_local:
            judge(bed, pages, "/api/v1/status")
        bed.recovers(bed.is_healthy, "/healthz responds with 200")
        bed.recovers(lambda: bed.farm.status()["pools"], "/api/v1/status responds")

    return run


def http_out_of_descriptors(bed: FaultBed) -> None:
    main = bed.farm.processes().main
    lines = bed.farm.log().count("\n")
    bed.begin()
    with no_descriptors(main), contextlib.closing(Connections(bed.farm.http_port, 50)):
        bed.keep(3.0)
    bed.ease()
    logged = bed.farm.log().count("\n") - lines
    bed.expect(logged <= 15, f"the server logged {logged} lines in 3 s; the limit is 15")
    bed.recovers(bed.is_healthy, "/healthz responds with 200")
    bed.recovers(bed.all_usable, "all members are usable")


def control_never_read(bed: FaultBed) -> None:
    bed.begin()
    with control_clients_that_never_read(bed.farm.control_path, CONTROL, _COMMAND):
        bed.keep(HELD_S)
    waits = sorted(record.waited for record in bed.load.between(bed.began))
    p99_ms = 1000 * waits[len(waits) * 99 // 100]
    bed.expect(
        p99_ms <= LATENCY_MS,
        f"the 99th percentile of the answers' latency is {p99_ms:.0f} ms; the limit is {LATENCY_MS:g} ms",
    )
    bed.ease()
    bed.recovers(lambda: bed.farm.control("overrides")["ok"], "the control socket answers")


_OPEN: Final = FarmPlan(web='allow = ["127.0.0.0/8"]\n')
_DNS: Final = "UDP and TCP queries are answered"
_HTTP: Final = "/healthz and pages respond within 3 s; no query is lost"
FAULTS: Final = (
    Fault("client.idle-tcp", f"{IDLE_TCP} idle TCP connections to the DNS port come from 100 addresses", _DNS, idle_tcp,
          quick=True, needs=("descriptors",)),
    Fault("client.slow-tcp", "1500 TCP clients send one byte of a query every 0.5 s", _DNS, slow_tcp),
    Fault("client.idle-http", f"{IDLE_HTTP} idle HTTP connections come from 50 addresses", _HTTP,
          http_clients(IDLE_HTTP, False, b"", b""), farm=_OPEN, quick=True, needs=("descriptors",)),
    Fault("client.slow-http", f"{SLOW} HTTP clients send one byte of a request header every 0.1 s", _HTTP,
          http_clients(SLOW, False, _HEAD, b"x"), farm=_OPEN),
    Fault("client.half-heads", f"{SLOW} HTTP clients send half of a request header, and reconnect when disconnected",
          _HTTP, http_clients(SLOW, False, _HEAD, b""), farm=_OPEN),
    Fault("client.slow-http-here", f"{SLOW} HTTP clients on the server's machine send a request header byte by byte",
          "/healthz responds within 3 s; no query is lost", http_clients(SLOW, True, _HEAD, b"x")),
    Fault("client.http-no-descriptors",
          "for 3 s, the main process cannot open more descriptors, while 50 HTTP clients connect",
          "the server logs at most 15 lines during the fault, and serves pages again afterwards",
          http_out_of_descriptors),
    Fault("client.control-never-reads",
          f"{CONTROL} clients of the control socket never read and often reconnect; the server has one worker",
          f"99 % of the DNS answers arrive within {LATENCY_MS:g} ms", control_never_read, farm=FarmPlan(workers=1),
          quick=True),
)  # fmt: skip
