"""Parsers for the scenario options of ``lbdns-sim``, such as farms, clients and loads. All parsers raise ValueError."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from lbdns.policies import POLICIES
from lbdns.text.suggestions import nearest
from lbdns_agent.alarm_conditions import parse_alarm_condition
from lbdns_shared.metric_catalogue import CATALOGUE
from lbdns_tools.sim.simulated_dns import ORACLE, RULES
from lbdns_tools.sim.simulated_requests import ALL_WORKLOADS
from lbdns_tools.sim.simulation_scenario import FARMS, OtherWork, Outage, ServerSpec, SimulatedClients, Slowdown, Surge

_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+"
_SERVER: Final = re.compile(rf"(?:([^=\s]+)\s*=\s*)?({_NUMBER})\s*x\s*({_NUMBER})(?:\s*/\s*({_NUMBER}))?\Z")
_SPAN: Final = re.compile(rf"(.+)@({_NUMBER})(?:-({_NUMBER}))?\Z")

MAX_SERVERS: Final = 1000  # every event visits every server, so more servers would take hours
MAX_CLIENTS: Final = 100_000
MAX_SPEED: Final = 1e6  # limit of speeds and core counts: far beyond any machine, and far from overflowing
MAX_TASKS: Final = 1e6
MAX_LOAD: Final = 10.0  # at ten times the farm's capacity, every policy fails
MAX_DNS_SERVERS: Final = 100


def parse_servers(text: str) -> tuple[ServerSpec, ...]:
    """Parse the name of a farm, or a list of servers in the form ``[NAME=]SPEEDxCORES[/QUOTA]``. The default
    server names are s1, s2, ..."""
    items = _items(text)
    if len(items) == 1 and re.fullmatch(r"[A-Za-z]\w*", items[0]):
        if (name := items[0].upper()) in FARMS:
            return FARMS[name]
        known = nearest(name, FARMS)
        raise ValueError(f"{items[0]!r} is neither a named farm nor a list of servers such as 1.1x1,0.7x1,2x2{known}")
    servers = tuple(_server(item, number) for number, item in enumerate(items, 1))
    if len(servers) > MAX_SERVERS:
        raise ValueError(f"a farm must not have more than {MAX_SERVERS} servers, but this farm has {len(servers)}")
    for server in servers:
        if [other.name for other in servers].count(server.name) > 1:
            raise ValueError(f"two servers are named {server.name!r}; rename one of them")
    return servers


def _server(text: str, number: int) -> ServerSpec:
    match = _SERVER.match(text)
    if not match:
        form = "SPEEDxCORES, NAME=SPEEDxCORES or SPEEDxCORES/QUOTA, for example 1.1x1, web1=2x2 or 1x2/0.4"
        raise ValueError(f"{text!r} is not a valid server; write {form}")
    values = {"the speed": match[2], "the number of cores": match[3], "the quota": match[4]}
    numbers = {what: float(value) for what, value in values.items() if value is not None}
    for what, value in numbers.items():
        if not 0 < value <= MAX_SPEED:
            raise ValueError(f"{text!r}: {what} is {value:g}, but must be above 0 and at most {MAX_SPEED:g}")
    speed, cores, *quota = numbers.values()
    return ServerSpec(match[1] or f"s{number}", speed, cores, quota=quota[0] if quota else 0.0)


#: Client types, with the possible numbers of values that follow each
CLIENT_KINDS: Final = {"open": (0,), "closed": (1, 2), "1999": (1,), "caches": (1, 2)}


def parse_clients(text: str) -> SimulatedClients:
    """Parse a client type, such as ``open``, ``closed:N``, ``closed:N:RESOLVE_S``, ``1999:N``, ``caches:N`` or
    ``caches:N:KEPT_S``."""
    kind, *numbers = text.strip().split(":")
    if kind not in CLIENT_KINDS:
        raise ValueError(f"{kind!r} is not a valid client type{nearest(kind, CLIENT_KINDS)}")
    if len(numbers) not in CLIENT_KINDS[kind]:
        raise ValueError(
            f"{text!r} is not a valid client type; examples are open, closed:20, closed:20:5 (lookups every 5 s), "
            "1999:20, caches:200 and caches:2:1 (answers are cached for 1 s)"
        )
    if kind == "open":
        return SimulatedClients()
    what = f"{text!r}: the number of {'caches' if kind == 'caches' else 'clients'}"
    count = int(numbers[0]) if re.fullmatch(r"\s*[0-9]{1,9}\s*", numbers[0]) else 0
    if not 1 <= count <= MAX_CLIENTS:
        raise ValueError(f"{what} is {numbers[0]!r}, but must be a whole number from 1 to {MAX_CLIENTS}")
    if kind == "1999":
        return SimulatedClients("closed", count, float(count), as_1999=True)
    if kind == "closed":
        clients = SimulatedClients("closed", count)
        return replace(clients, resolve=_look_up(numbers[1], text)) if len(numbers) == 2 else clients
    clients = SimulatedClients("caches", count)
    if len(numbers) == 1:
        return clients
    seconds = _number(numbers[1], f"{text!r}: the time in seconds for which an answer is cached")
    return replace(clients, shortest=seconds, longest=seconds)


def _look_up(seconds: str, text: str) -> float:
    """Parse a client's time between lookups, in seconds."""
    if re.fullmatch(r"0+(\.0*)?", seconds.strip()):
        return 0.0
    what = "but must be from 0 (a lookup before every request) to 1e+09"
    try:
        return _number(seconds, "")
    except ValueError:
        raise ValueError(f"{text!r}: the time between lookups is {seconds!r}, {what}") from None


def clients_text(clients: SimulatedClients) -> str:
    """Return ``clients`` as text that ``parse_clients`` accepts."""
    if clients.as_1999:
        return f"1999:{clients.count}"
    if clients.kind == "closed":
        return f"closed:{clients.count}:{clients.resolve:g}"
    if clients.kind == "caches":
        return f"caches:{clients.count}" + (f":{clients.longest:g}" if clients.shortest == clients.longest else "")
    return "open"


def parse_kill(text: str) -> Outage:
    """Parse an outage of a host in the form ``NAME@T`` or ``NAME@T-T2``.

    The host NAME, or each host of the site NAME, fails at T. If T2 is given, it recovers at T2.
    """
    return Outage(*_span(text, "NAME@T or NAME@T-T2, for example s1@60-90"))


def parse_hang(text: str) -> Outage:
    """Parse an outage of a web server in the form ``NAME@T`` or ``NAME@T-T2``.

    The web server on the host NAME fails at T, but the agent on that host continues to report.
    """
    return replace(parse_kill(text), service_only=True)


def parse_hide_status(text: str) -> Outage:
    """Parse an outage of a server-status page in the form ``NAME@T`` or ``NAME@T-T2``.

    The web server on the host NAME continues to work, but from T on the agent cannot read its server-status page.
    """
    return replace(parse_kill(text), page_only=True)


def parse_surge(text: str) -> Surge:
    """Parse a flash crowd in the form ``FACTOR@T-T2`` or ``SITE:FACTOR@T-T2``.

    From T to T2, requests arrive at FACTOR times the usual rate, or only those of the clients near SITE.
    """
    before, start, end = _span(text, "[SITE:]FACTOR@T-T2, for example 3@60-90", ends=True)
    site, _, factor = before.rpartition(":")
    return Surge(start, end, _number(factor, f"{text!r}: the factor", 1e6), site)


def parse_other_work(text: str) -> OtherWork:
    """Parse a description of other work on a host, in the form ``NAME:TASKS@T-T2``.

    The host NAME runs TASKS additional tasks from T to T2.
    """
    form = "NAME:TASKS@T-T2, for example s1:4@60-90"
    return OtherWork(*_amount(text, form, "the number of tasks", MAX_TASKS))


def parse_slow(text: str) -> Slowdown:
    """Parse slower cores in the form ``NAME:FACTOR@T-T2``.

    From T to T2, the cores of the host NAME run at FACTOR times their speed.
    """
    return Slowdown(*_amount(text, "NAME:FACTOR@T-T2, for example s1:0.5@60-90", "the factor", 1e6))


def _amount(text: str, form: str, what: str, most: float) -> tuple[str, float, float, float]:
    """Parse ``text``, and return the host's name, the two times and the amount."""
    before, start, end = _span(text, form, ends=True)
    name, colon, amount = before.rpartition(":")
    if not colon or not name:
        raise ValueError(f"{text!r}: {what} is missing; write {form}")
    return name, start, end, _number(amount, f"{text!r}: {what}", most)


def parse_alarm(text: str) -> str:
    """Parse an alarm condition in the syntax of ``lbdns-agent --alarm``: ``METRIC[/cpu] > NUMBER``."""
    return str(parse_alarm_condition(text, CATALOGUE))


def parse_loads(text: str) -> tuple[float, ...]:
    """Parse comma-separated loads, each a fraction of the farm's capacity."""
    return tuple(_number(item, "a load", MAX_LOAD) for item in _items(text))


def parse_workloads(text: str) -> tuple[str, ...]:
    return _each_of(text, "workload", ALL_WORKLOADS)


def parse_policies(text: str) -> tuple[str, ...]:
    """Parse comma-separated policies, each of which may be followed by a rule for sites, as in ``best:nearest``."""
    with_rules = (f"{policy}:{rule}" for policy in POLICIES for rule in RULES)
    return _each_of(text, "policy", (*POLICIES, ORACLE, *with_rules))


def parse_clients_list(text: str) -> tuple[SimulatedClients, ...]:
    return tuple(parse_clients(item) for item in _items(text))


def _span(text: str, form: str, ends: bool = False) -> tuple[str, float, float]:
    """Return the text before the @ and the two times after it. A missing second time is returned as infinity."""
    match = _SPAN.match(text.strip())
    if not match or (ends and not match[3]):
        raise ValueError(f"{text!r} is not valid; write {form}, with times in seconds since the start of the warm-up")
    start, end = float(match[2]), float(match[3]) if match[3] else math.inf
    if end <= start:
        raise ValueError(f"{text!r}: the end at {end:g} s must be later than the start at {start:g} s")
    return match[1].strip(), start, end


def _items(text: str) -> list[str]:
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise ValueError(f"{text!r} is not a valid list: it must not contain empty items")
    return items


def _each_of(text: str, what: str, known: Collection[str]) -> tuple[str, ...]:
    items = _items(text)
    for item in items:
        if item not in known:
            raise ValueError(f"{item!r} is not a valid {what}{nearest(item, known)}")
    return tuple(dict.fromkeys(items))


def _number(text: str, what: str, most: float = 1e9) -> float:
    value = float(text) if re.fullmatch(_NUMBER, text.strip()) else 0.0
    if not 0 < value <= most:
        raise ValueError(f"{what} is {text!r}, but must be a number above 0 and at most {most:g}")
    return value
