"""Reads $GENERATE lines in BIND's format: range, owner, optional TTL and class, type, and the data as one word. Pure.

Data that contains several words must be in quotation marks, which are not part of the data: ``$GENERATE 1-9 a$ MX "10
mail$"``. If a quotation mark is part of the data, a backslash must precede it: ``$GENERATE 1-9 a$ TXT "\\"number
$\\""``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import dns.exception
import dns.grange
import dns.rdataclass
import dns.rdatatype
import dns.tokenizer
import dns.ttl

_MAX_WIDTH: Final = 127  # digits
#: An escaped character, two dollar signs, or a dollar sign with or without offset, width and base
_NUMBER: Final = re.compile(r"\\.|\$\$|\$(?:(\{)(?:([+-]?\d{1,10})(?:,(\d{1,3})(?:,([doxXnN]))?)?\})?)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GenerateLine:
    """A parsed $GENERATE line. ``owner`` and ``data`` are templates for ``expanded``."""

    numbers: range
    owner: str
    ttl: int | None  # s; None if the line has none
    rdtype: dns.rdatatype.RdataType
    data: str

    @property
    def count(self) -> int:
        """The number of records that the line creates. ``len`` would fail if the number exceeded ``sys.maxsize``."""
        return (self.numbers.stop - 1 - self.numbers.start) // self.numbers.step + 1


def read_generate_line(words: Sequence[dns.tokenizer.Token]) -> GenerateLine:
    """Parse a line that consists of ``words``. ``words`` does not include the word $GENERATE. Raises ValueError."""
    if len(words) < 2:
        raise ValueError("$GENERATE must be followed by a range, an owner name, a type and the data")
    numbers, owner, *rest = words
    ttl = _ttl(rest[0].value) if rest else None
    if ttl is not None:
        del rest[0]
    if rest and _is_class_in(rest[0].value):
        del rest[0]
    if len(rest) < 2:
        raise ValueError("$GENERATE must have a type and the data")
    rdtype, data, *others = rest
    if others:
        whole = " ".join(word.value for word in rest[1:])
        raise ValueError(f'$GENERATE data that contains several words must be in quotation marks: "{whole}"')
    text = data.value.replace('\\"', '"') if data.is_quoted_string() else data.value
    return GenerateLine(_range(numbers.value), owner.value, ttl, _type(rdtype.value), text)


def expanded(template: str, number: int) -> str:
    """Return the template with ``$`` and ``${offset,width,base}`` replaced by the number. Raises ValueError.

    ``$$`` is a dollar sign. A backslash and the next character remain unchanged.
    """

    def replacement(match: re.Match[str]) -> str:
        text = match[0]
        if text[0] == "\\":
            return text
        if text == "$$":
            return "$"
        if match[1] and not match[2]:
            raise ValueError("$GENERATE needs a modifier of the form ${offset,width,base}")
        return _digits(number + int(match[2] or 0), int(match[3] or 0), match[4] or "d")

    return _NUMBER.sub(replacement, template)


def _digits(value: int, width: int, base: str) -> str:
    if width > _MAX_WIDTH:
        raise ValueError(f"the width of a $GENERATE modifier must be at most {_MAX_WIDTH}")
    if base not in "nN":
        return format(value, base).zfill(width)
    if value < 0:
        raise ValueError(f"$GENERATE cannot write {value} as nibbles")
    text = ".".join(format(value, "x" if base == "n" else "X")[::-1])
    # The width counts characters, dots included. BIND therefore ends an even width with a dot
    return text + "".join(".0"[i % 2] for i in range(width - len(text)))


def _range(text: str) -> range:
    try:
        start, stop, step = dns.grange.from_text(text)
    except Exception:  # AssertionError among them
        raise ValueError(f"$GENERATE must have a range such as 1-9 or 0-8/2, not {text!r}") from None
    return range(start, stop + 1, step)


def _ttl(text: str) -> int | None:
    try:
        return dns.ttl.from_text(text)
    except dns.ttl.BadTTL:
        return None


def _is_class_in(text: str) -> bool:
    """Return True if ``text`` names the class IN, or False if it names no class.

    Raises ValueError if ``text`` names a class other than IN.
    """
    try:
        rdclass = dns.rdataclass.from_text(text)
    except dns.exception.DNSException:
        return False
    if rdclass != dns.rdataclass.IN:
        raise ValueError(f"the class must be IN, not {text}")
    return True


def _type(text: str) -> dns.rdatatype.RdataType:
    try:
        return dns.rdatatype.from_text(text)
    except (dns.exception.DNSException, ValueError):
        raise ValueError(f"unknown rdatatype {text!r}") from None
