"""Reads the object file of the XDP program: its instructions, its map definitions, and where it refers to the maps.

The file is ELF for the target ``bpfel``, as clang writes it. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.server.xdp.bpf_calls import MapDefinition
from lbdns.server.xdp.kernel_errors import KernelError

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQ")
_DEFINITION: Final = struct.Struct("<5I")
_IDENT: Final = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_BPF: Final = 247  # the number of the machine
_SYMBOLS, _RELOCATIONS = 2, 9  # types of sections
_LOAD_MAP: Final = 0x18  # the instruction that loads the address of a map
_MAP_DESCRIPTOR: Final = 1  # its source register, if its number is a descriptor
_INSTRUCTION: Final = 8  # bytes


@dataclass(frozen=True)
class ProgramObject:
    """A program that has yet to be loaded. ``references`` contains, by the offset of an instruction, a map's name."""

    instructions: bytes
    license_name: bytes
    maps: Mapping[str, MapDefinition]
    references: Mapping[int, str]

    def linked(self, descriptors: Mapping[str, int]) -> bytes:
        """Return the instructions with the descriptors of the maps in place."""
        code = bytearray(self.instructions)
        for offset, name in self.references.items():
            code[offset + 1] = code[offset + 1] & 0x0F | _MAP_DESCRIPTOR << 4
            struct.pack_into("<i", code, offset + 4, descriptors[name])
        return bytes(code)


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    content: bytes
    link: int
    target: int


def read_object(content: bytes) -> ProgramObject:
    """Return the program in an object file. Raises KernelError if the file is damaged, or made for another machine."""
    try:
        return _read(content)
    except (struct.error, IndexError, KeyError, OverflowError, ValueError) as error:
        raise KernelError("the XDP program's object file is damaged: build it again with 'make xdp'") from error


def _read(content: bytes) -> ProgramObject:
    sections = _sections(content)
    by_name = {section.name: section for section in sections}
    code = by_name["xdp"].content
    (symbol_table,) = (section for section in sections if section.kind == _SYMBOLS)
    symbols = _symbols(symbol_table, sections)
    maps_at = sections.index(by_name["maps"])
    maps = {
        name: MapDefinition(*_DEFINITION.unpack_from(by_name["maps"].content, value))
        for name, section, value in symbols
        if section == maps_at and name
    }
    references = {}
    for section in sections:
        if section.kind == _RELOCATIONS and sections[section.target] is by_name["xdp"]:
            for offset, info in _RELOCATION.iter_unpack(section.content):
                name = symbols[info >> 32][0]
                if name not in maps or code[offset] != _LOAD_MAP or offset % _INSTRUCTION:
                    raise ValueError(f"the program refers to {name}, which is not a map")
                references[offset] = name
    return ProgramObject(code, by_name["license"].content.rstrip(b"\0"), maps, references)


def _sections(content: bytes) -> Sequence[_Section]:
    ident, _, machine, _, _, _, at, _, _, _, _, size, count, names_at = _HEADER.unpack_from(content)
    if not ident.startswith(_IDENT) or machine != _BPF or size != _SECTION.size:
        raise ValueError("not an object file for bpfel")
    headers = [_SECTION.unpack_from(content, at + number * size) for number in range(count)]
    names = _content(content, headers[names_at])
    return [
        _Section(_text(names, header[0]), header[1], _content(content, header), header[6], header[7])
        for header in headers
    ]


def _content(content: bytes, header: tuple[int, ...]) -> bytes:
    offset, size = header[4:6]
    return content[offset : offset + size]


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(0, at)].decode() if at < len(strings) else ""


def _symbols(table: _Section, sections: Sequence[_Section]) -> Sequence[tuple[str, int, int]]:
    """Return each symbol's name, the number of its section, and its value."""
    strings = sections[table.link].content
    return [
        (_text(strings, name), section, value) for name, _, _, section, value, _ in _SYMBOL.iter_unpack(table.content)
    ]
