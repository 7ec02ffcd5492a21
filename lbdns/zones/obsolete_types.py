"""Reads obsolete record types for which dnspython has only names, in the notation of the RFCs that define them.

``register`` adds the types to dnspython: MD, MF, MB, MG, MR and MINFO (RFC 1035), NXT (RFC 2535), A6 (RFC 2874) and TA.
The type NULL has no notation of its own (RFC 1035 section 3.3.10). The data of NULL records is written as in RFC 3597.
"""

from __future__ import annotations

import contextlib
import ipaddress
import sys
from typing import Any, BinaryIO, Final

import dns.immutable
import dns.name
import dns.rdata
import dns.rdatatype
import dns.rdtypes.ANY.RP
import dns.rdtypes.dsbase
import dns.rdtypes.nsbase
import dns.tokenizer
import dns.wire

_NXT_TYPES: Final = 128  # the bitmap of an NXT record has one bit for each type below this number
_ADDRESS: Final = 128  # bits


@dns.immutable.immutable
class MD(dns.rdtypes.nsbase.NSBase):
    """A mail destination: the name of a host."""


class MF(MD):
    """A mail forwarder: the name of a host."""


class MB(MD):
    """A mailbox: the name of the host that has it."""


class MG(MD):
    """A member of a mail group: the name of a mailbox."""


class MR(MD):
    """The new name of a renamed mailbox."""


class MINFO(dns.rdtypes.ANY.RP.RP):
    """A mailing list: the maintainer's mailbox, and the mailbox for errors.

    MINFO records and RP records have the same format: two names.
    """


class TA(dns.rdtypes.dsbase.DSBase):
    """A trust anchor, in the form of a DS record."""


@dns.immutable.immutable
class NXT(dns.rdata.Rdata):
    """The next name in a signed zone, and the types that exist at the owner name."""

    __slots__ = ("bitmap", "next")

    def __init__(self, rdclass: Any, rdtype: Any, next_name: dns.name.Name, bitmap: bytes) -> None:
        super().__init__(rdclass, rdtype)
        self.next = next_name
        self.bitmap = bitmap

    def to_text(self, origin: dns.name.Name | None = None, relativize: bool = True, style: Any = None, **_: Any) -> str:
        bits = int.from_bytes(self.bitmap, "big")
        types = (number for number in range(8 * len(self.bitmap)) if bits >> (8 * len(self.bitmap) - 1 - number) & 1)
        name = self.next.choose_relativity(origin, relativize)
        return " ".join((str(name), *(dns.rdatatype.to_text(dns.rdatatype.RdataType.make(n)) for n in types)))

    def to_styled_text(self, style: Any) -> str:
        return self.to_text()

    @classmethod
    def from_text(
        cls,
        rdclass: Any,
        rdtype: Any,
        tok: dns.tokenizer.Tokenizer,
        origin: dns.name.Name | None = None,
        relativize: bool = True,
        relativize_to: dns.name.Name | None = None,
    ) -> NXT:
        next_name = tok.get_name(origin, relativize, relativize_to)
        types = {dns.rdatatype.from_text(token.value) for token in tok.get_remaining()}
        if any(number >= _NXT_TYPES for number in types):
            raise ValueError(f"an NXT record can list only types below {_NXT_TYPES}")
        bits = sum(1 << _NXT_TYPES - 1 - number for number in types)
        return cls(rdclass, rdtype, next_name, bits.to_bytes(_NXT_TYPES // 8, "big").rstrip(b"\0"))

    def _to_wire(self, file: BinaryIO, compress: Any = None, origin: Any = None, canonicalize: bool = False) -> None:
        self.next.to_wire(file, None, origin, canonicalize)
        file.write(self.bitmap)

    @classmethod
    def from_wire_parser(cls, rdclass: Any, rdtype: Any, parser: dns.wire.Parser, origin: Any = None) -> NXT:
        return cls(rdclass, rdtype, parser.get_name(origin), parser.get_remaining())


@dns.immutable.immutable
class A6(dns.rdata.Rdata):
    """The last bits of an IPv6 address, and the name of the A6 record that contains the first ``prefix`` bits."""

    __slots__ = ("name", "prefix", "suffix")

    def __init__(self, rdclass: Any, rdtype: Any, prefix: int, suffix: bytes, name: dns.name.Name | None) -> None:
        super().__init__(rdclass, rdtype)
        if prefix > _ADDRESS:
            raise ValueError(f"the prefix length of an A6 record must be at most {_ADDRESS}")
        if int.from_bytes(suffix, "big") >> _ADDRESS - prefix:
            raise ValueError("the address of an A6 record must not have bits set in its prefix")
        self.prefix = prefix
        self.suffix = suffix
        self.name = name  # None if the record contains the whole address

    def to_text(self, origin: dns.name.Name | None = None, relativize: bool = True, style: Any = None, **_: Any) -> str:
        words = [str(self.prefix)]
        if self.prefix < _ADDRESS:
            words.append(str(ipaddress.IPv6Address(self.suffix.rjust(16, b"\0"))))
        if self.name is not None:
            words.append(str(self.name.choose_relativity(origin, relativize)))
        return " ".join(words)

    def to_styled_text(self, style: Any) -> str:
        return self.to_text()

    @classmethod
    def from_text(
        cls,
        rdclass: Any,
        rdtype: Any,
        tok: dns.tokenizer.Tokenizer,
        origin: dns.name.Name | None = None,
        relativize: bool = True,
        relativize_to: dns.name.Name | None = None,
    ) -> A6:
        prefix = tok.get_uint8()
        address = ipaddress.IPv6Address(tok.get_identifier()).packed if prefix < _ADDRESS else bytes(16)
        name = tok.get_name(origin, relativize, relativize_to) if prefix else None
        size = _suffix_octets(prefix)
        if any(address[: 16 - size]):
            raise ValueError("the address of an A6 record must not have bits set in its prefix")
        return cls(rdclass, rdtype, prefix, address[16 - size :], name)

    def _to_wire(self, file: BinaryIO, compress: Any = None, origin: Any = None, canonicalize: bool = False) -> None:
        file.write(bytes((self.prefix,)) + self.suffix)
        if self.name is not None:
            self.name.to_wire(file, None, origin, canonicalize)

    @classmethod
    def from_wire_parser(cls, rdclass: Any, rdtype: Any, parser: dns.wire.Parser, origin: Any = None) -> A6:
        prefix = parser.get_uint8()
        suffix = parser.get_bytes(_suffix_octets(prefix))
        return cls(rdclass, rdtype, prefix, suffix, parser.get_name(origin) if prefix else None)


def _suffix_octets(prefix: int) -> int:
    return max(0, (_ADDRESS - prefix + 7) // 8)


def register() -> None:
    """Make dnspython read the obsolete types by name, except types that this version of dnspython already supports."""
    module: Any = sys.modules[__name__]
    for name in ("MD", "MF", "MB", "MG", "MR", "MINFO", "NXT", "A6", "TA"):
        with contextlib.suppress(dns.rdata.RdatatypeExists):
            dns.rdata.register_type(module, dns.rdatatype.from_text(name), name)
