"""The system call bpf(2): creates and changes maps, and loads, attaches and runs programs.

All functions raise OSError, and return descriptors that are closed when another program is executed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from dataclasses import dataclass
from typing import Any, Final

_SYSTEM_CALLS: Final = {"x86_64": 321, "aarch64": 280}
_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _MAP_DELETE, _PROGRAM_LOAD, _PROGRAM_TEST = 0, 1, 2, 3, 5, 10
_LINK_CREATE, _LINK_UPDATE = 28, 29
_XDP_PROGRAM: Final = 6  # a type of programs
_XDP_ATTACHMENT: Final = 37
_NATIVE_MODE, _GENERIC_MODE = 1 << 2, 1 << 1
_LOG_LENGTH: Final = 1 << 24  # bytes: room for the verifier's log
_LONGEST_PACKET: Final = 2048  # bytes that a test run may return

_libc: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class MapDefinition:
    """A map's type and flags, as in ``linux/bpf.h``, and its sizes in bytes and entries."""

    kind: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int


def _bpf(command: int, attributes: bytes) -> tuple[int, bytes]:
    """Return the result, and the attributes as the kernel has left them."""
    number = _SYSTEM_CALLS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, "bpf(2) is only supported on x86-64 and arm64")
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    found: int = _libc.syscall(number, command, buffer, len(attributes))
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found, buffer.raw


def _descriptor(command: int, attributes: bytes) -> int:
    """Return the new descriptor that a command makes."""
    return _bpf(command, attributes)[0]


def _address(buffer: Any) -> int:
    return ctypes.addressof(buffer)


def create_map(name: str, definition: MapDefinition) -> int:
    """Create a map, and return its descriptor. The kernel shows the first 15 bytes of ``name``."""
    return _descriptor(
        _MAP_CREATE,
        struct.pack(
            "=7I16s",
            definition.kind,
            definition.key_size,
            definition.value_size,
            definition.max_entries,
            definition.flags,
            0,
            0,
            name.encode()[:15],
        ),
    )


def _element(fd: int, key: bytes, value: Any, flags: int) -> tuple[bytes, Any]:
    key_buffer = ctypes.create_string_buffer(key, len(key))
    address = _address(value) if value is not None else 0
    return struct.pack("=IIQQQ", fd, 0, _address(key_buffer), address, flags), key_buffer


def update_element(fd: int, key: bytes, value: bytes) -> None:
    """Add an entry to a map, or replace it."""
    buffer = ctypes.create_string_buffer(value, len(value))
    attributes, kept = _element(fd, key, buffer, 0)
    _bpf(_MAP_UPDATE, attributes)
    del kept


def look_up_element(fd: int, key: bytes, size: int) -> bytes:
    """Return an entry's value. For a map with a value for each CPU, ``size`` is the size of all values.

    Raises OSError with ENOENT if there is no such entry.
    """
    buffer = ctypes.create_string_buffer(size)
    attributes, kept = _element(fd, key, buffer, 0)
    _bpf(_MAP_LOOKUP, attributes)
    del kept
    return buffer.raw


def delete_element(fd: int, key: bytes) -> None:
    """Delete an entry. Raises OSError with ENOENT if there is no such entry."""
    attributes, kept = _element(fd, key, None, 0)
    _bpf(_MAP_DELETE, attributes)
    del kept


def load_xdp_program(name: str, instructions: bytes, license_name: bytes, *, with_log: bool = False) -> tuple[int, str]:
    """Load an XDP program, and return two values: its descriptor, or the negative error number if the kernel rejects
    it; and the verifier's log, if ``with_log`` is true."""
    code = ctypes.create_string_buffer(instructions, len(instructions))
    terms = ctypes.create_string_buffer(license_name)
    log = ctypes.create_string_buffer(_LOG_LENGTH if with_log else 1)
    attributes = struct.pack(
        "=IIQQIIQII16sII",
        _XDP_PROGRAM,
        len(instructions) // 8,
        _address(code),
        _address(terms),
        1 if with_log else 0,
        len(log) if with_log else 0,
        _address(log) if with_log else 0,
        0,
        0,
        name.encode()[:15],
        0,
        _XDP_ATTACHMENT,
    )
    try:
        fd = _descriptor(_PROGRAM_LOAD, attributes)
    except OSError as error:
        fd = -(error.errno or errno.EINVAL)
    return fd, log.value.decode(errors="replace")


def attach_xdp(program: int, interface: int, *, generic: bool = False) -> int:
    """Attach a program to an interface, and return the descriptor of the link.

    The program is detached when the last descriptor is closed. ``generic`` needs no support by the driver. Raises
    OSError with EBUSY or EEXIST if another program is attached.
    """
    mode = _GENERIC_MODE if generic else _NATIVE_MODE
    return _descriptor(_LINK_CREATE, struct.pack("=IIII", program, interface, _XDP_ATTACHMENT, mode))


def update_link(link: int, program: int) -> None:
    """Replace a link's program in one step."""
    _bpf(_LINK_UPDATE, struct.pack("=IIII", link, program, 0, 0))


def run_program(program: int, packet: bytes, repeat: int = 1) -> tuple[int, bytes, int]:
    """Run an XDP program on a packet without a network, and return its verdict, the packet as it has left it, and the
    mean time of a run (ns)."""
    data = ctypes.create_string_buffer(packet, len(packet))
    out = ctypes.create_string_buffer(_LONGEST_PACKET)
    attributes = struct.pack(
        "=IIIIQQIIIIQQ", program, 0, len(packet), len(out), _address(data), _address(out), repeat, 0, 0, 0, 0, 0
    )
    _, attributes = _bpf(_PROGRAM_TEST, attributes)
    _, verdict, _, length, _, _, _, duration, *_ = struct.unpack("=IIIIQQIIIIQQ", attributes)
    return verdict, out.raw[:length], duration
