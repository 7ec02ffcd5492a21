"""``explain.NAME TXT``: why a name of a pool is answered as it is, told over DNS to who may know. Pure.

The name exists for clients in ``[explain] allow`` alone, and only while the zone file has nothing of that name; it
stands in no transfer. Asking for it hands nobody out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lbdns.answering.constants import Rcode, Type
from lbdns.answering.entry import Entry
from lbdns.answering.lookup import ZoneIndex
from lbdns.answering.message import Answer, Body, Record, write
from lbdns.answering.query import Query
from lbdns.answering.relay import Allowed
from lbdns.farm import Farm, Pool

LABEL: Final = b"\7explain"
TOLD: Final = 20  # members at most, the most probable ones: who wants to see 200 is better served by a page
MAX_STRING: Final = 255  # octets of a character-string, RFC 1035 section 3.3
MAX_TEXT: Final = 1000  # octets of one record: all of them together are far below the 64 KB of a message
_CUT: Final = "..."

#: Explains what is handed out for an owner name of a pool (docs/explain.md); None where that can't be told just now
Explainer = Callable[[Pool, str], Mapping[str, Any] | None]


class Explanation(Entry):
    """An answer that is made for one query and not kept. Its RCODE is known before it is made, so that a query over the
    rate limit doesn't have it made."""

    __slots__ = ()

    @property
    def rcode(self) -> int:
        return Rcode.NOERROR


class Explanations:
    """The names of one farm that explain others, and who may ask for them."""

    __slots__ = ("_allowed", "_owners")

    def __init__(self, farm: Farm) -> None:
        self._allowed = Allowed(farm.config.explain.allow)
        #: By the name that explains it: the pool and its owner name as the configuration writes it
        self._owners: dict[bytes, tuple[Pool, str]] = {
            LABEL + owner: (pool, text)
            for pool in (farm.pools if self._allowed else ())
            for owner, text in zip(pool.owners, pool.config.names, strict=True)
        }

    def entry(self, index: ZoneIndex, query: Query, host: str, explainer: Explainer | None) -> Entry | None:
        """The answer to a query from ``host`` in the zone of ``index``; None if there is no such name for it."""
        qname, qtype = query.qname, query.qtype
        found = self._owners.get(qname)
        if found is None or explainer is None or qname in index.names or not self._allowed.has(host):
            return None
        if qname[len(LABEL) :] not in index.dynamic:
            return None  # another zone has taken the pool's name
        pool, owner = found

        def make(_: int) -> Body:
            if qtype not in (Type.TXT, Type.ANY):
                return write(Answer(authority=index.negative), qname)
            told = texts(explainer(pool, owner))
            return write(Answer(answer=tuple(Record(qname, Type.TXT, 0, strings(text)) for text in told)), qname)

        return Explanation(b"", index.zone.name, qtype, make, 1, None)


def texts(explanation: Mapping[str, Any] | None) -> Sequence[str]:
    """What is told of an explanation, each text a record of its own: a summary, then the members, the most probable
    first, of those alike the one with the highest score."""
    if explanation is None:
        return ("no explanation just now: a reload is under way; ask again",)
    members = sorted(explanation["members"], key=_rank)[:TOLD]
    measured = bool(explanation["measured"])
    return (_summary(explanation, len(members)), *(_member(member, measured) for member in members))


def strings(text: str) -> bytes:
    """The rdata of a TXT record: character-strings of printable ASCII that make ``text`` when joined, parted behind
    spaces where there are any. What is not printable is escaped, and what is too long cut."""
    plain = "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode("ascii") for c in text)
    if len(plain) > MAX_TEXT:
        plain = plain[: MAX_TEXT - len(_CUT)] + _CUT
    found = []
    while len(plain) > MAX_STRING:
        end = plain.rfind(" ", 0, MAX_STRING) + 1 or MAX_STRING
        found.append(plain[:end])
        plain = plain[end:]
    return b"".join(bytes((len(part),)) + part.encode("ascii") for part in (*found, plain))


def _summary(told: Mapping[str, Any], shown: int) -> str:
    requests, members = told["requests_per_s"], len(told["members"])
    fields = (
        f"next={told['next']} ({told['why']})",
        f"policy={told['policy']} pool={told['pool']}",
        f"answers={_figure(told['answers_per_s'])}/s",
        f"requests={_figure(requests)}/s" if requests is not None else "requests=unknown",
        f"interval={_figure(told['interval_s'])}s",
        f"fail_open=yes ({told['fail_open_reason']})" if told["fail_open"] else "fail_open=no",
        f"worker={told['worker']}" if told["workers"] > 1 else "",
        f"members={members}" + (f" ({members - shown} less probable ones are left out)" if shown < members else ""),
    )
    return " ".join(filter(None, fields))


def _rank(member: Mapping[str, Any]) -> tuple[float, bool, int]:
    score = member["score"]
    return -member["probability"], score is None, -(score or 0)


def _member(member: Mapping[str, Any], measured: bool) -> str:
    parts = " ".join(f"{metric} {_figure(part)}" for metric, part in member["score_parts"].items())
    score, age = member["score"], member["age_s"]
    fields = (
        f"{member['name']} p={member['probability']:.2f}",
        "score=none" if score is None else f"score={score}",
        f"({parts})" if parts else "",
        f"capacity={_figure(member['capacity'])}{'/s' if measured else ''}",
        f"left={_figure(member['left'])}" if member["left"] < 1 else "",
        f"load={_figure(member['load'])} charge={_figure(member['charge'])} credit={_figure(member['credit'])}",
        f"state={member['state']}",
        f"({member['reason']})" if member["reason"] else "",
        f"guard=({member['guard']})" if member["guard"] else "",
        "suspect=yes" if member["suspect"] else "",
        f"age={_figure(age)}s" if age is not None else "",
    )
    return " ".join(filter(None, fields))


def _figure(value: float) -> str:
    """Three digits, but whole numbers whole."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value + 0.0:.3g}"
