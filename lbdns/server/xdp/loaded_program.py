"""The XDP program in the kernel, and its maps. Nothing answers until the program is attached to an interface."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import platform
import re
import resource
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, Literal

from lbdns.server.xdp import bpf_calls
from lbdns.server.xdp.kernel_errors import KernelError, TablesFullError
from lbdns.server.xdp.object_file import ProgramObject, read_object

OBJECT: Final = Path(__file__).with_name("answers.o")
PROGRAM: Final = "lbdns_answers"  # the name that bpftool shows
_NEEDS: Final = {errno.EPERM: "the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON", errno.ENOSYS: "Linux 5.10"}


@cache
def program_object() -> ProgramObject:
    """Return the program that was built with this version. Raises KernelError."""
    try:
        content = OBJECT.read_bytes()
    except FileNotFoundError:
        raise KernelError(f"the XDP program was not built: {OBJECT} is missing ('make xdp' needs clang)") from None
    except OSError as error:
        raise KernelError(f"cannot read the XDP program: {error}") from error
    return read_object(content)


class LoadedProgram:
    """Owns the descriptors of the program and its maps, from the constructor to ``close``."""

    def __init__(self, entries: Mapping[str, int]) -> None:
        """Load the program. ``entries`` contains the sizes of the maps whose definitions leave the size open.

        Raises KernelError, with the verifier's log if the kernel rejects the program.
        """
        program = program_object()
        _lift_memory_limit()
        self.definitions = {
            name: replace(definition, max_entries=entries.get(name, definition.max_entries))
            for name, definition in program.maps.items()
        }
        self._maps: dict[str, int] = {}
        self._memories: dict[str, mmap.mmap] = {}
        self._views: list[memoryview] = []
        self.fd = -1
        try:
            for name, definition in self.definitions.items():
                self._maps[name] = bpf_calls.create_map(name, definition)
            self._load(program)
        except OSError as error:
            self.close()
            raise _explained("create the maps of the XDP program", error) from error
        except BaseException:
            self.close()
            raise

    def _load(self, program: ProgramObject) -> None:
        code = program.linked(self._maps)
        fd, _ = bpf_calls.load_xdp_program(PROGRAM, code, program.license_name)
        if fd < 0:
            again, log = bpf_calls.load_xdp_program(PROGRAM, code, program.license_name, with_log=True)
            if again < 0:
                raise _explained("load the XDP program", OSError(-again, os.strerror(-again)), log)
            fd = again
        self.fd = fd

    def view(self, name: str, format_code: Literal["B", "Q"] = "B") -> memoryview:
        """Return the content of a mappable map, which the program sees at once; items have the given format."""
        if name not in self._memories:
            definition = self.definitions[name]
            size = -(-definition.value_size // 8) * 8 * definition.max_entries
            try:
                self._memories[name] = mmap.mmap(self._maps[name], size)
            except OSError as error:
                raise _explained(f"map the table {name} into memory", error) from error
        view = memoryview(self._memories[name])
        self._views += [view, view.cast(format_code)]
        return self._views[-1]

    def put(self, name: str, key: bytes, value: bytes) -> None:
        """Add an entry to a map, or replace it. Raises TablesFullError."""
        try:
            bpf_calls.update_element(self._maps[name], key, value)
        except OSError as error:
            if error.errno in (errno.E2BIG, errno.ENOSPC, errno.ENOMEM):
                raise TablesFullError(f"the table {name} of the XDP program is full") from error
            raise _explained(f"write to the table {name} of the XDP program", error) from error

    def remove(self, name: str, key: bytes) -> None:
        """Remove an entry from a map, if it is there."""
        try:
            bpf_calls.delete_element(self._maps[name], key)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise _explained(f"write to the table {name} of the XDP program", error) from error

    def run(self, packet: bytes, repeat: int = 1) -> tuple[int, bytes, int]:
        """Run the program on a packet without a network, as ``bpf_calls.run_program`` does."""
        return bpf_calls.run_program(self.fd, packet, repeat)

    def close(self) -> None:
        """Close all descriptors. A link keeps the program, and the program keeps its maps."""
        for view in reversed(self._views):
            view.release()
        for memory in self._memories.values():
            memory.close()
        for fd in (self.fd, *self._maps.values()):
            if fd >= 0:
                os.close(fd)
        self.fd = -1
        self._maps, self._memories, self._views = {}, {}, []


def _explained(task: str, error: OSError, log: str = "") -> KernelError:
    needs = _NEEDS.get(error.errno or 0)
    return KernelError(f"cannot {task}: {error.strerror}" + (f"; this needs {needs}" if needs else ""), log)


def _lift_memory_limit() -> None:
    """Allow maps of any size on kernels before 5.11, which count them as locked memory."""
    major, minor, *_ = (int(number) for number in re.findall(r"\d+", platform.release())[:2])
    if (major, minor) < (5, 11):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
