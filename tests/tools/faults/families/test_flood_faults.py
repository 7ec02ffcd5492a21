"""The malformed messages of the floods are really malformed."""

from __future__ import annotations

import json
from random import Random

import pytest

from lbdns_shared.errors import ReportError
from lbdns_shared.keys import new_master_key
from lbdns_shared.report import open_envelope
from lbdns_tools.faults.families.flood_faults import control_line, datagram_report, http_request, tcp_message

SEEDS = range(200)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_report_would_be_accepted(seed: int) -> None:
    datagram = datagram_report(Random(seed))
    key = new_master_key()
    try:
        envelope = open_envelope(datagram)
    except ReportError:
        return
    assert not envelope.signed_by(key.agent_key(envelope.host))


def test_messages_over_tcp_have_a_length() -> None:
    assert all(len(tcp_message(Random(seed))) >= 2 for seed in SEEDS)


def test_there_are_many_kinds() -> None:
    for message in (http_request, control_line):
        assert len({message(Random(seed))[:30] for seed in SEEDS}) > 5


def test_no_control_line_is_a_valid_command() -> None:
    for seed in SEEDS:
        try:
            document = json.loads(control_line(Random(seed)))
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict) and document.get("command") in ("drain", "weight"):
            assert not isinstance(document.get("member"), str) or document["factor"] < 0
