"""Counts rejected reports by source, and records why the collector rejects them. Sans-I/O.

Because the collector never replies to an agent, this table shows an operator why an agent's reports are rejected.
Anyone can send datagrams with forged source addresses and host names. The size of the table is therefore limited. A
flood from random sources cannot displace the members' addresses or other persistent sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from lbdns_shared.report import MAGIC, NO_KEY_ID, is_host_name

MAX_SENDERS: Final = 512  # senders in the table, which then takes at most half a megabyte
MAX_SHOWN: Final = 20  # senders in a status document
MAX_EXPORTED: Final = 10  # senders with a time series in the metrics
QUIET: Final = 600.0  # seconds without a rejected report after which a sender is no longer shown
PERSISTENT: Final = 60.0  # seconds that a sender with an unknown address must keep sending to get a time series
REPLACE_EVERY: Final = 0.1  # seconds between two replacements in a full table, which cost half a millisecond each

ADVICE: Final = {
    "too_long": "check whether another program sends datagrams to this port",
    "malformed": "check whether another program sends datagrams to this port",
    "wrong_subject": "the report's subject on the bus names another host; check the agent's --name option",
    "unknown_host": "no member with an agent has this name; check the agent's --name option, and [[pool]] agentless",
    "bad_tag": "check that both hosts use the same key; without keys, the source must be the member's address",
    "rate": "the host sends more than 50 reports/s; check whether several agents run on that host",
    "clock": "the clocks differ by more than 30 s; check that time is synchronised on both hosts",
    "duplicate": "the agent sends its reports over UDP and over the bus; no action is needed",
    "replay": "the datagram was repeated, or two agents with different clocks use the same name",
    "join_pool": "no pool accepts the host, or several pools do; check the agent's --pool option, and [[pool]] join",
    "join_name": "a host with this name may not join, or the name is used in the zone; check [[pool]] join.names",
    "join_address": "the host's addresses must lie in [[pool]] join.networks, and include the source of its reports; "
    "over a bus, the agent must state them with --address",
    "join_full": "the pool has as many joined members as [[pool]] join.max permits",
}
_HEADER: Final = 9  # bytes before the host name in a datagram


@dataclass(slots=True)
class RejectedSender:
    """A sender of rejected reports: a source address, and the host that the reports claim to be from.

    ``host`` and ``key_id`` are copied from the newest datagram and may be forged. If the datagram has no valid
    envelope, ``host`` is empty; if it has no key, ``key_id`` is empty. Times are in Unix seconds.
    """

    source: str
    host: str
    is_member: bool  # whether ``source`` is an address of a member
    first: float
    last: float = 0.0
    reason: str = ""  # of the newest
    key_id: bytes = NO_KEY_ID
    counts: Counter[str] = field(default_factory=Counter)

    def document(self, now: float) -> dict[str, Any]:
        return {
            "source": self.source,
            "host": self.host,
            "key_id": "" if self.key_id == NO_KEY_ID else self.key_id.hex(),
            "member_address": self.is_member,
            "reason": self.reason,
            "advice": ADVICE.get(self.reason, ""),
            "count": self.counts.total(),
            "counts": dict(self.counts),
            "age_s": round(max(0.0, now - self.last), 3),
        }


class RejectedReports:
    def __init__(self, addresses: Iterable[str] = ()) -> None:
        """``addresses`` are the members' addresses."""
        self.addresses: Collection[str] = frozenset(addresses)
        self.version = 0  # increases with every rejected report
        self._senders: dict[tuple[str, bytes], RejectedSender] = {}
        self._replaced = {False: 0.0, True: 0.0}  # Unix seconds of the last replacement by a stranger, by a member
        self._exported: dict[tuple[str, bytes], None] = {}  # the keys of the senders with a time series

    def note(self, reason: str, datagram: bytes, source: str, wall: float) -> None:
        """Count a rejected datagram that arrived at ``wall`` (Unix seconds)."""
        self.version += 1
        has_name = datagram[:4] == MAGIC and reason != "malformed" and reason != "too_long"
        name = datagram[_HEADER : _HEADER + datagram[8]] if has_name else b""
        sender = self._senders.get((source, name))
        if sender is None:
            sender = self._add(source, name, wall)
            if sender is None:
                return
        sender.last, sender.reason = wall, reason
        sender.key_id = datagram[4:8] if has_name else NO_KEY_ID
        sender.counts[reason] += 1

    def _add(self, source: str, name: bytes, wall: float) -> RejectedSender | None:
        """Return a new sender, or None if the table is full of senders with a higher priority."""
        is_member = source.removeprefix("::ffff:").partition("%")[0] in self.addresses
        if len(self._senders) >= MAX_SENDERS and not self._make_room(is_member, wall):
            return None
        host = name.decode("ascii", "replace")
        sender = RejectedSender(source, host if is_host_name(host) else "", is_member, wall)
        self._senders[source, name] = sender
        return sender

    def _make_room(self, for_member: bool, wall: float) -> bool:
        if 0.0 <= wall - self._replaced[for_member] < REPLACE_EVERY:
            return False
        self._replaced[for_member] = wall
        rank, victim = min(
            ((self._importance(sender, wall), sender.counts.total(), sender.last), place)
            for place, sender in self._senders.items()
        )
        if rank[0] >= 2 and not for_member:
            return False
        del self._senders[victim]
        return True

    def _importance(self, sender: RejectedSender, wall: float) -> int:
        """Return a sender's priority: 0 for a quiet sender, 2 for a member's address, 3 for a sender with a time
        series, otherwise 1.
        """
        if sender.last <= wall - QUIET:
            return 0
        if (sender.source, sender.host.encode()) in self._exported:
            return 3
        return 2 if sender.is_member else 1

    def senders(self, now: float) -> list[RejectedSender]:
        """Return the senders of the last ten minutes.

        Members' addresses come first; other senders are sorted by the number of reports.
        """
        recent = [sender for sender in self._senders.values() if now - sender.last < QUIET]
        return sorted(recent, key=lambda sender: (sender.is_member, sender.counts.total()), reverse=True)

    def documents(self, now: float) -> list[dict[str, Any]]:
        """Return the first MAX_SHOWN senders as dictionaries."""
        return [sender.document(now) for sender in self.senders(now)[:MAX_SHOWN]]

    def of_host(self, host: str, source: str, now: float) -> Iterator[RejectedSender]:
        """Yield the senders that claim to be ``host``, or that send from address ``source``, newest first."""
        found = [each for each in self.senders(now) if each.host == host or each.source == source]
        yield from sorted(found, key=lambda each: each.last, reverse=True)

    def exported(self, now: float) -> list[RejectedSender]:
        """Return the senders that have their own time series in the metrics.

        A sender keeps its time series until it has been quiet for ten minutes. Otherwise, a flood with changing source
        addresses could create new series with every scrape.
        """
        recent = {(sender.source, sender.host.encode()): sender for sender in self.senders(now)}
        self._exported = {place: None for place in self._exported if place in recent}
        for place, sender in recent.items():
            if len(self._exported) >= MAX_EXPORTED:
                break
            if sender.is_member or sender.last - sender.first >= PERSISTENT:
                self._exported[place] = None
        return [recent[place] for place in self._exported]
