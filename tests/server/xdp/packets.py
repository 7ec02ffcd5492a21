"""Builds and checks Ethernet frames, independently of the code under test: checksums are sums of big-endian words."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass
from typing import Final

SERVER_MAC: Final = bytes.fromhex("02005e000001")
CLIENT_MAC: Final = bytes.fromhex("02005e000002")
SERVERS: Final = {4: "192.0.2.1", 6: "2001:db8::1"}
CLIENTS: Final = {4: "198.51.100.7", 6: "2001:db8:1:2:3:4:5:6"}
PORT: Final = 53
UDP: Final = 17
ETHERNET: Final = 14
VLAN_TAG: Final = 4
_ETHERTYPES: Final = {4: 0x0800, 6: 0x86DD}
_MINIMUM: Final = 60  # bytes of a frame; shorter ones are padded


def checksum(content: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    content += b"\0" * (len(content) % 2)
    total: int = sum(struct.unpack(f"!{len(content) // 2}H", content))
    while total > 0xFFFF:
        total = (total >> 16) + (total & 0xFFFF)
    return total ^ 0xFFFF


@dataclass(frozen=True)
class Datagram:
    """A UDP datagram in a frame, by default a query from the client to the server."""

    payload: bytes
    version: int = 4
    source: str = ""
    destination: str = ""
    source_port: int = 4711
    destination_port: int = PORT
    source_mac: bytes = CLIENT_MAC
    destination_mac: bytes = SERVER_MAC
    vlan: int = 0
    ttl: int = 64
    fragment: int = 0x4000
    identification: int = 0
    checksum: int | None = None  # None: the right one
    padded: bool = True

    @property
    def addresses(self) -> tuple[bytes, bytes]:
        source, destination = self.source or CLIENTS[self.version], self.destination or SERVERS[self.version]
        return ipaddress.ip_address(source).packed, ipaddress.ip_address(destination).packed

    def udp(self) -> bytes:
        source, destination = self.addresses
        length = 8 + len(self.payload)
        pseudo = source + destination + struct.pack("!IHBB", length, 0, 0, UDP)
        ports = struct.pack("!HHH", self.source_port, self.destination_port, length)
        right = checksum(pseudo + ports + b"\0\0" + self.payload) or 0xFFFF
        return ports + struct.pack("!H", right if self.checksum is None else self.checksum) + self.payload

    def ip(self) -> bytes:
        source, destination = self.addresses
        udp = self.udp()
        if self.version == 6:
            return struct.pack("!IHBB", 6 << 28, len(udp), UDP, self.ttl) + source + destination + udp
        start = struct.pack(
            "!BBHHHBB", 0x45, 0, 20 + len(udp), self.identification, self.fragment, self.ttl, UDP
        )  # fmt: skip
        total = checksum(start + b"\0\0" + source + destination)
        return start + struct.pack("!H", total) + source + destination + udp

    def frame(self) -> bytes:
        tag = struct.pack("!HH", 0x8100, self.vlan) if self.vlan else b""
        kind = struct.pack("!H", _ETHERTYPES[self.version])
        frame = self.destination_mac + self.source_mac + tag + kind + self.ip()
        return frame.ljust(_MINIMUM, b"\0") if self.padded else frame


def answer_frame(query: Datagram, payload: bytes) -> bytes:
    """Return the frame that a server sends as its answer: the sender and the receiver change places."""
    source, destination = (str(ipaddress.ip_address(address)) for address in query.addresses)
    return Datagram(
        payload, query.version, destination, source, query.destination_port, query.source_port, query.destination_mac,
        query.source_mac, query.vlan, padded=False,
    ).frame()  # fmt: skip


def payload_of(frame: bytes, query: Datagram) -> bytes:
    """Return what a frame carries, if its headers are like those of ``query``."""
    return frame[ETHERNET + VLAN_TAG * bool(query.vlan) + (20 if query.version == 4 else 40) + 8 :]
