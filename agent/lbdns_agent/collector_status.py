"""Asks a collector over HTTP whether it accepts this host's reports, and logs the reason if not (``--status-url``).

The collector never replies to reports, because their source addresses may be forged. The collector's HTTP interface,
which only permitted clients may read, shows whether a host's reports are accepted.
"""

from __future__ import annotations

import json
import logging
import random
import re
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from lbdns_agent.non_blocking_sensors import ReadingSteps
from lbdns_agent.webserver.status_page import ServerStatusPage, StatusUrl
from lbdns_shared.endpoint import parse_endpoint
from lbdns_shared.report import AgentKey

log = logging.getLogger("lbdns.agent")

PATH: Final = "/api/v1/reports?host="
TOKEN_VARIABLE: Final = "LBDNS_TOKEN"  # environment variable with a token for collectors that require credentials
PERIOD: Final = 30.0  # seconds between two questions, on average
JITTER: Final = 0.25  # share of the period, so that the agents of many hosts do not ask at the same time
CONFIRM: Final = 3.0  # seconds, or two intervals: a problem is logged only if it still exists after this time
SETTLE: Final = 5.0  # seconds, or three intervals: before the first question, reports must have had time to arrive
FRESH: Final = 3.0  # intervals since the last accepted report for which the collector counts as accepting reports
RECENT: Final = 60.0  # seconds, or three intervals, since a rejected report for which its reason counts
QUOTED: Final = 200  # characters of the collector's own words in a log line
_PORTS: Final = {"http": 80, "https": 443}


class Problem(NamedTuple):
    """The reason why a collector does not accept reports: a word for the kind of problem, and an explanation."""

    kind: str
    text: str


def parse_collector_url(text: str) -> StatusUrl:
    """Parse ``http[s]://HOST[:PORT][/PREFIX]``, the address of a collector's HTTP interface. Raises ValueError."""
    parts = urlsplit(text.strip())
    if parts.scheme not in _PORTS or not parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            f"{text!r} is not the URL of a collector's HTTP interface; write, for example, http://ns1:8053"
        )
    if "@" in parts.netloc:
        raise ValueError(f"{text!r}: must not contain a user name or password; set {TOKEN_VARIABLE} to a token instead")
    if any(not 33 <= ord(character) < 127 for character in parts.path):
        raise ValueError(f"{text!r} contains a character that must be written as %XX")
    return StatusUrl(parts.scheme, parse_endpoint(parts.netloc, _PORTS[parts.scheme]), parts.path.rstrip("/"))


def find_problem(document: Any, name: str, boot: int, interval: float, key: AgentKey | None, now: float) -> Problem:
    """Return the reason why the collector rejects this agent's reports.

    If the collector accepts them, the fields of the returned problem are empty.

    ``document`` is the collector's response, received at ``now`` (Unix seconds). ``interval`` is the report interval in
    seconds. Raises ValueError if the document is invalid. Pure.
    """
    try:
        age, is_known, skew = document["accepted_age_s"], document["known"], now - float(document["time"])
        is_fresh = age is not None and age <= FRESH * interval + 1.0
        if is_fresh and document["boot"] == f"{boot:016x}":
            return Problem("", "")
        if not is_known:
            what = f"the collector has no member named {name!r}; check --name, and the members in its configuration"
            return Problem("unknown_host", what)
        if is_fresh:
            return Problem(
                "other_agent", f"another agent reports as {name!r}; stop one of the two agents, or change its --name"
            )
        recent = max(RECENT, FRESH * interval)
        mine = [each for each in document["rejected"] if each["host"] == name and each["age_s"] <= recent]
        if not mine:
            what = (
                "no report from this host has reached the collector; "
                "check --collector, and check that no firewall drops UDP"
            )
            return Problem("nothing", what)
        newest = min(mine, key=lambda each: float(each["age_s"]))
        return Problem(str(newest["reason"]), _explain(newest, name, key, skew))
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a valid response: {error!r}") from None


def _explain(rejected: Any, name: str, key: AgentKey | None, skew: float) -> str:
    reason, source = str(rejected["reason"]), printable(str(rejected["source"]))
    if reason == "clock":
        which = "ahead of" if skew > 0 else "behind"
        return f"clock: this host's clock is {abs(skew):.0f} s {which} the collector's; synchronise the clocks"
    if reason == "bad_tag" and key is None:
        return (
            f"bad_tag: the reports are unsigned and come from {source}; if the collector has a key file, use "
            f"--key-file; if it has none, {source} must be an address of {name!r} in its zone"
        )
    if reason == "bad_tag" and key is not None:
        return (
            f"bad_tag: the signature with key {key.key_id.hex()} is not valid for {name!r}; install the output of "
            f"'lbdns keygen --agent {name} --master FILE', where FILE is the collector's key file"
        )
    return printable(f"{reason}: {rejected['advice']}")


def printable(text: str) -> str:
    """Shorten ``text`` to ``QUOTED`` characters and replace unprintable characters, because ``text`` may be forged."""
    return "".join(character if character.isprintable() else "?" for character in text[:QUOTED])


def read_response(response: bytes) -> Any:
    """Return the JSON document in an HTTP response.

    Raises ValueError if the response is malformed or reports an error. Pure.
    """
    head, _, body = response.partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/[0-9.]+ ([0-9]{3})\b", head)
    if not status:
        raise ValueError("the response is not HTTP, or is incomplete")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if status[1] != b"200":
        error = document.get("error") if isinstance(document, dict) else None
        raise ValueError(f"HTTP status {status[1].decode()}{printable(f': {error}') if error else ''}")
    if not isinstance(document, dict):
        raise ValueError("the response is not from lbdns")
    return document


class CollectorStatus:
    """A client that periodically asks one collector whether it accepts this host's reports.

    ``poll`` runs like a non-blocking sensor, but returns no value.
    """

    def __init__(
        self,
        url: StatusUrl,
        name: str,
        boot: int,
        interval: float,
        key: Callable[[], AgentKey | None],
        token: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``interval`` is the report interval in seconds. ``key`` returns the key with which reports are signed."""
        self._base = StatusUrl(url.scheme, url.endpoint, url.target)
        target = StatusUrl(url.scheme, url.endpoint, f"{url.target}{PATH}{name}")
        self._page = ServerStatusPage(target, f"Authorization: Bearer {token}\r\n" if token else "")
        self._name, self._boot, self._interval, self._key = name, boot, interval, key
        self._clock = clock
        self._due = clock() + max(SETTLE, FRESH * interval)
        self._is_suspected = False  # whether the last question found a problem
        self._logged = ""  # the kind of the problem that was logged last; empty if there is none

    def poll(self) -> ReadingSteps[None]:
        """If a request is due, ask the collector, and log the result if it has changed."""
        if self._clock() < self._due:
            return
        try:
            response = yield from self._page.exchange()
            document = read_response(response)
            problem = find_problem(document, self._name, self._boot, self._interval, self._key(), time.time())
        except TimeoutError:
            self._conclude(Problem("unreachable", "the collector did not send a complete response in time"))
        except OSError as error:
            self._page.resolver.refresh()
            self._conclude(Problem("unreachable", error.strerror or str(error)))
        except ValueError as error:
            self._conclude(Problem("unreachable", str(error)))
        else:
            self._conclude(problem)

    def _conclude(self, problem: Problem) -> None:
        pause = PERIOD * random.uniform(1.0 - JITTER, 1.0 + JITTER)
        if problem.kind and not self._is_suspected:
            pause = max(CONFIRM, 2.0 * self._interval)  # perhaps the collector has just started
        elif problem.kind not in ("", self._logged):
            self._logged = problem.kind
            self._log(problem)
        elif not problem.kind and self._logged:
            self._logged = ""
            log.info("--status-url %s: the collector now accepts this host's reports", self._base)
        self._is_suspected = bool(problem.kind)
        self._due = self._clock() + pause

    def _log(self, problem: Problem) -> None:
        if problem.kind == "unreachable":
            what = "can't find out whether the collector accepts this host's reports"
        else:
            what = "the collector does not accept this host's reports"
        log.warning("--status-url %s: %s: %s", self._base, what, problem.text)
