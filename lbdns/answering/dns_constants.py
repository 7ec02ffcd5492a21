"""Constants of the DNS protocol (flags, RCODEs, types, classes), named as in RFC 9499 and the IANA registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import dns.rcode
import dns.rdatatype

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


Rcode = dns.rcode.Rcode
Type = dns.rdatatype.RdataType
#: Meta-types, which no record of a zone has (RFC 6895 section 3.1).
META_TYPES: Final = frozenset((Type.TKEY, Type.TSIG, Type.IXFR, Type.AXFR, Type.MAILB, Type.MAILA))
TRANSFER_TYPES: Final = frozenset((Type.IXFR, Type.AXFR))
#: The types that counters and logs show by name.
TYPE_NAMES: Final[Mapping[int, str]] = {
    int(dns.rdatatype.RdataType[name]): name
    for name in (
        "A", "NS", "CNAME", "SOA", "PTR", "MX", "TXT", "AAAA", "SRV", "NAPTR", "DNAME", "OPT", "DS", "DNSKEY", "SVCB",
        "HTTPS", "TKEY", "TSIG", "IXFR", "AXFR", "MAILB", "MAILA", "ANY", "CAA",
    )
}  # fmt: skip
