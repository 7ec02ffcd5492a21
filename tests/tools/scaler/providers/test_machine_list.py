"""Tests of the parser for the list of servers that a user's command prints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.providers.machine_list import parse_machines
from lbdns_tools.scaler.providers.provider import Machine, MachineStatus, ProviderError

ONE = {"name": "web-1", "status": "running"}
FULL = {**ONE, "addresses": ["10.0.0.1", "2001:DB8::1"], "created": 1700000000, "detail": "ACTIVE"}
EXPECTED = Machine("web-1", MachineStatus.RUNNING, ("10.0.0.1", "2001:db8::1"), 1.7e9, "ACTIVE")

GOOD: list[tuple[str, tuple[Machine, ...]]] = [
    ("", ()),
    (" \n\n", ()),
    ("[]", ()),
    (json.dumps(FULL), (EXPECTED,)),
    (json.dumps([FULL]), (EXPECTED,)),
    (json.dumps([FULL], indent=2), (EXPECTED,)),
    (
        f"\n{json.dumps(FULL)}\n\n" + '{"name": "web-2", "status": "stopped"}\n',
        (EXPECTED, Machine("web-2", MachineStatus.STOPPED)),
    ),
]


@pytest.mark.parametrize(("text", "machines"), GOOD)
def test_lists(text: str, machines: tuple[Machine, ...]) -> None:
    assert parse_machines(text.encode()) == machines


BAD: list[tuple[Any, str]] = [
    (b"\xff", "list: the output must be UTF-8 text: byte 0 is not valid"),
    (b"{", "list: line 1 is not valid JSON: "),
    (b"[", "list: the output is not valid JSON: "),
    (b"\nweb-1 running", "list: line 2 is not valid JSON: "),
    (b"3", "list: line 1: must be a JSON object such as "),
    ([ONE, "x"], "list: server 2: must be a JSON object"),
    ([{"name": "web-1"}], "list: server 1: status is missing"),
    ([{"status": "running"}], "list: server 1: name is missing"),
    ([{**ONE, "adresses": []}], "list: server 1: unknown key 'adresses'. Perhaps"),
    ([{**ONE, "name": "Web 1"}], "list: server 1: name: 'Web 1' must be a lower-case host name"),
    ([{**ONE, "name": 1}], "list: server 1: name: 1 must be a lower-case host name"),
    ([{**ONE, "status": "ACTIVE"}], "status: unknown value 'ACTIVE'; known: building, running, stopping, stopped"),
    ([{**ONE, "status": []}], "status: unknown value []"),
    ([{**ONE, "addresses": "10.0.0.1"}], "addresses: must be a list of addresses, not '10.0.0.1'"),
    ([{**ONE, "addresses": ["10.0.0"]}], "addresses: '10.0.0' is not an IPv4 or IPv6 address"),
    ([{**ONE, "addresses": [1]}], "addresses: 1 is not an IPv4 or IPv6 address"),
    ([{**ONE, "created": -1}], "created: must be Unix time in seconds, or 0, not -1"),
    ([{**ONE, "created": True}], "created: must be Unix time"),
    ([{**ONE, "created": 1.7e12}], "created: must be Unix time in seconds, or 0, not 1700000000000"),
    (b'[{"name": "web-1", "status": "running", "created": NaN}]', "created: must be Unix time"),
    ([{**ONE, "detail": None}], "detail: must be a string, not None"),
    ([ONE, ONE], "list: server 'web-1' appears 2 times"),
    (b"[" * 100_000, "list: the output is not valid JSON: "),
]


@pytest.mark.parametrize(("output", "message"), BAD)
def test_mistakes(output: Any, message: str) -> None:
    data = output if isinstance(output, bytes) else json.dumps(output).encode()
    with pytest.raises(ProviderError) as error:
        parse_machines(data)
    assert message in str(error.value)
    assert len(str(error.value)) < 300


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*FULL, "x"]) | st.text(), inner, max_size=5)
    ),
    max_leaves=12,
)


@given(JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=200))
def test_any_output_is_a_list_or_a_provider_error(output: bytes) -> None:
    try:
        machines = parse_machines(output)
    except ProviderError:
        return
    assert len({machine.name for machine in machines}) == len(machines)
