"""Numbers of the DNS protocol (flags, RCODEs, types, classes), named as in RFC 9499 and the IANA registry."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

HEADER_LENGTH: Final = 12  # bytes
MAX_TCP_MESSAGE: Final = 65_535  # bytes, RFC 1035 section 4.2.2

TRANSPORTS: Final = ("udp", "tcp")
UDP: Final = 0  # index into TRANSPORTS
TCP: Final = 1

CLASS_IN: Final = 1
CLASS_CH: Final = 3

# Header flags (RFC 1035 section 4.1.1, RFC 4035 section 3)
QR: Final = 0x8000
AA: Final = 0x0400
TC: Final = 0x0200
RD: Final = 0x0100
RA: Final = 0x0080
AD: Final = 0x0020
CD: Final = 0x0010
OPCODE_MASK: Final = 0x7800


class Rcode(IntEnum):
    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    YXDOMAIN = 6
    NOTAUTH = 9
    BADVERS = 16
    BADCOOKIE = 23


class Type(IntEnum):
    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    PTR = 12
    MX = 15
    TXT = 16
    AAAA = 28
    SRV = 33
    NAPTR = 35
    DNAME = 39
    OPT = 41
    DS = 43
    DNSKEY = 48
    SVCB = 64
    HTTPS = 65
    TKEY = 249
    TSIG = 250
    IXFR = 251
    AXFR = 252
    MAILB = 253
    MAILA = 254
    ANY = 255
    CAA = 257


#: Meta-types, which no record of a zone has (RFC 6895 section 3.1).
META_TYPES: Final = frozenset((Type.TKEY, Type.TSIG, Type.IXFR, Type.AXFR, Type.MAILB, Type.MAILA))
TRANSFER_TYPES: Final = frozenset((Type.IXFR, Type.AXFR))
TYPE_NAMES: Final[Mapping[int, str]] = {int(rtype): rtype.name for rtype in Type}
