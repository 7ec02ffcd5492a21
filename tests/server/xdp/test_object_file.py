"""Checks that the object file is read, and that damaged files are refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.server.xdp.kernel_errors import KernelError
from lbdns.server.xdp.loaded_program import OBJECT
from lbdns.server.xdp.object_file import read_object
from tests.needs import needs

pytestmark = needs(xdp=True)


@pytest.fixture(scope="module")
def content() -> bytes:
    return OBJECT.read_bytes()


def test_the_program_has_its_maps_and_refers_to_all_of_them(content: bytes) -> None:
    program = read_object(content)
    assert set(program.references.values()) == set(program.maps)
    assert len(program.maps) == 10
    assert program.license_name == b"MIT"
    assert len(program.instructions) % 8 == 0
    assert (program.maps["variants"].value_size, program.maps["questions"].key_size) == (512, 104)


def test_linking_puts_descriptors_where_maps_are_loaded(content: bytes) -> None:
    program = read_object(content)
    code = program.linked({name: number for number, name in enumerate(program.maps, 100)})
    assert len(code) == len(program.instructions)
    for offset, name in program.references.items():
        assert code[offset + 1] >> 4 == 1
        assert int.from_bytes(code[offset + 4 : offset + 8], "little") == 100 + list(program.maps).index(name)


def test_a_program_for_another_machine_is_refused(content: bytes) -> None:
    for damaged in (b"", b"text", content[:18] + b"\x3e\0" + content[20:], content[:5] + b"\2" + content[6:]):
        with pytest.raises(KernelError, match="damaged: build it again"):
            read_object(damaged)


@given(at=st.integers(0, 40_000), value=st.integers(0, 255), end=st.none() | st.integers(0, 40_000))
def test_damage_is_an_error_of_its_own_or_harmless(at: int, value: int, end: int | None) -> None:
    """Whatever the reader lets through, the kernel's verifier checks again."""
    damaged = bytearray(OBJECT.read_bytes())
    damaged[at % len(damaged)] = value
    with suppress(KernelError):
        assert read_object(bytes(damaged[:end])).maps
