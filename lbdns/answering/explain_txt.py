"""``explain.NAME TXT``: explains how the next answer for the pool name NAME will be chosen. Sans-I/O.

``explain.NAME`` exists only for clients that ``[explain] allow`` lists, and only if the zone file does not define it.
Zone transfers do not include ``explain.NAME``, and queries for ``explain.NAME`` do not select a member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lbdns.answering.answer_table import AnswerEntry
from lbdns.answering.dns_constants import Rcode, Type
from lbdns.answering.message_writer import AnswerSections, Record, ResponseBody, write_body
from lbdns.answering.query_reader import Query
from lbdns.answering.relayed_query import AllowedNetworks
from lbdns.answering.zone_lookup import ZoneIndex
from lbdns.model.farm import Farm, Pool

LABEL: Final = b"\7explain"
MAX_MEMBERS: Final = 20  # the most probable members; the web page is a better place to see 200
PER_SECOND: Final = 20.0  # explanations; each takes a millisecond or more, hundreds of times as much as another answer
BURST: Final = 200.0  # explanations after a pause
MAX_STRING: Final = 255  # octets of a character-string, RFC 1035 section 3.3
MAX_TEXT: Final = 1000  # octets of one record: all records together stay far below the 64 KiB of a message
_CUT: Final = "..."

#: Returns the explanation of a pool's next answer for an owner name (docs/reference/explain.md); None during a reload
Explainer = Callable[[Pool, str], Mapping[str, Any] | None]


class ExplanationEntry(AnswerEntry):
    """The entry for one explanation query. The answer table keeps no explanation entries.

    The RCODE is known before the explanation is generated. If a query exceeds the rate limit, the explanation is
    therefore never generated.
    """

    __slots__ = ()

    @property
    def rcode(self) -> int:
        return Rcode.NOERROR


class ExplanationNames:
    """The ``explain.NAME`` names of one farm, and the networks that may query them."""

    __slots__ = ("_allowed", "_left", "_now", "_owners")

    def __init__(self, farm: Farm) -> None:
        self._allowed = AllowedNetworks(farm.config.explain.allow)
        self._now, self._left = 0.0, BURST
        #: Maps each name ``explain.NAME`` to its pool and to the owner name NAME as configured
        self._owners: dict[bytes, tuple[Pool, str]] = {
            LABEL + owner: (pool, text)
            for pool in (farm.pools if self._allowed else ())
            for owner, text in zip(pool.owners, pool.config.names, strict=True)
        }

    def may_explain(self, now: float) -> bool:
        """Return whether the limit ``PER_SECOND`` permits another explanation at ``now`` (monotonic seconds)."""
        self._left = min(self._left + max(now - self._now, 0.0) * PER_SECOND, BURST)
        self._now = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    def entry(self, index: ZoneIndex, query: Query, host: str, explainer: Explainer | None) -> AnswerEntry | None:
        """Return the entry for ``query`` in the zone of ``index``, or None if ``host`` may not query that name."""
        qname, qtype = query.qname, query.qtype
        found = self._owners.get(qname)
        if found is None or explainer is None or qname in index.names or not self._allowed.has(host):
            return None
        if qname[len(LABEL) :] not in index.pool_owners:
            return None  # the pool's name belongs to another zone now
        pool, owner = found

        def make(_: int) -> ResponseBody:
            if qtype not in (Type.TXT, Type.ANY):
                return write_body(AnswerSections(authority=index.negative), qname)
            explanation = explainer(pool, owner)
            records = tuple(Record(qname, Type.TXT, 0, strings(text)) for text in texts(explanation))
            return write_body(AnswerSections(answer=records), qname)

        return ExplanationEntry(b"", index.zone.name, qtype, make)


def texts(explanation: Mapping[str, Any] | None) -> Sequence[str]:
    """Return the texts of an explanation, one per TXT record: a summary, then one text per member.

    Members are sorted by descending probability. If members have equal probabilities, they are sorted by descending
    score.
    """
    if explanation is None:
        return ("no explanation is available during a reload; repeat the query later",)
    members = sorted(explanation["members"], key=_rank)[:MAX_MEMBERS]
    measured = bool(explanation["measured"])
    return (_summary(explanation, len(members)), *(_member(member, measured) for member in members))


def strings(text: str) -> bytes:
    """Return ``text`` as the rdata of a TXT record, split at spaces into character-strings.

    All characters except printable ASCII are escaped. A text longer than MAX_TEXT octets is truncated.
    """
    plain = "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode("ascii") for c in text)
    if len(plain) > MAX_TEXT:
        plain = plain[: MAX_TEXT - len(_CUT)] + _CUT
    found = []
    while len(plain) > MAX_STRING:
        end = plain.rfind(" ", 0, MAX_STRING) + 1 or MAX_STRING
        found.append(plain[:end])
        plain = plain[end:]
    return b"".join(bytes((len(part),)) + part.encode("ascii") for part in (*found, plain))


def _summary(explanation: Mapping[str, Any], shown: int) -> str:
    requests, members = explanation["requests_per_s"], len(explanation["members"])
    fields = (
        f"next={explanation['next']} ({explanation['why']})",
        f"then={','.join(explanation['alternatives'])}" if explanation.get("alternatives") else "",
        f"policy={explanation['policy']} pool={explanation['pool']}",
        f"answers={_number(explanation['answers_per_s'])}/s",
        f"requests={_number(requests)}/s" if requests is not None else "requests=unknown",
        f"interval={_number(explanation['interval_s'])}s",
        _backup(explanation.get("backup")),
        f"fail_open=yes ({explanation['fail_open_reason']})" if explanation["fail_open"] else "fail_open=no",
        f"worker={explanation['worker']}" if explanation["workers"] > 1 else "",
        f"members={members}" + (f" ({members - shown} less probable members omitted)" if shown < members else ""),
    )
    return " ".join(filter(None, fields))


def _backup(backup: Mapping[str, Any] | None) -> str:
    if not backup or not backup["share"]:
        return ""
    return f"backup={backup['pool']} ({100 * backup['share']:.0f} %, because the pool {backup['why']})"


def _rank(member: Mapping[str, Any]) -> tuple[float, bool, int]:
    score = member["score"]
    return -member["probability"], score is None, -(score or 0)


def _member(member: Mapping[str, Any], measured: bool) -> str:
    parts = " ".join(f"{metric} {_number(part)}" for metric, part in member["score_parts"].items())
    score, age = member["score"], member["age_s"]
    fields = (
        f"{member['name']} p={member['probability']:.2f}",
        "score=none" if score is None else f"score={score}",
        f"({parts})" if parts else "",
        f"capacity={_number(member['capacity'])}{'/s' if measured else ''}",
        f"left={_number(member['left'])}" if member["left"] < 1 else "",
        f"load={_number(member['load'])} charge={_number(member['charge'])} credit={_number(member['credit'])}",
        f"state={member['state']}",
        f"({member['reason']})" if member["reason"] else "",
        f"guard=({member['guard']})" if member["guard"] else "",
        "suspect=yes" if member["suspect"] else "",
        f"age={_number(age)}s" if age is not None else "",
    )
    return " ".join(filter(None, fields))


def _number(value: float) -> str:
    """Return ``value`` as text: a rounded integer if it is at least 100, otherwise three significant digits."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value + 0.0:.3g}"
