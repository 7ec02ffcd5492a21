"""Prepares an answer table for the queries that the table in use gets, before it takes that table's place.

An answer table compiles answers when they are first asked for. After a reload, all queries would therefore take the
slow path at once. A busy server would then have to drop some of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import Final

from lbdns.answering.answer_table import AnswerEntry, AnswerTable
from lbdns.answering.query_shapes import FIRST_COOKIE_KIND

MOST: Final = 1000  # questions: the answers to rarer ones are compiled when they are asked for
_QUESTION_END: Final = -4  # of a key: its type and class follow the name


def warm_up(table: AnswerTable, in_use: AnswerTable, has_cookies: bool) -> Iterator[None]:
    """Precompile in ``table`` the responses that ``in_use`` has precompiled, for the questions asked most often.

    Each step precompiles one kind of response to one question. ``has_cookies`` says whether responses with cookies will
    be sent.
    """
    in_use.queries()  # brings the entries' counts up to date
    for before in nlargest(MOST, in_use.entries.values(), key=lambda entry: sum(entry.queries)):
        entry = _same_question(table, before)
        if not entry or not entry.kept or (entry.external_aliases and table.farm.config.forward.allow):
            continue
        for kind, variants in enumerate(before.variants):
            if variants is not None and entry.variants[kind] is None and (has_cookies or kind < FIRST_COOKIE_KIND):
                table.precompile(entry, kind)
                yield


def _same_question(table: AnswerTable, before: AnswerEntry) -> AnswerEntry | None:
    """Return the table's entry for the question of ``before``, or None if no zone answers it."""
    qname = before.key[:_QUESTION_END]
    index = table.zone_of(qname, before.qtype)
    return table.entry(index, qname, before.qtype) if index else None
