"""The errors of answering in the kernel. Each message is one clear line."""

from __future__ import annotations


class KernelError(Exception):
    """The kernel, or the built program, does not allow answering in the kernel.

    ``log`` contains the verifier's log, or is empty.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class InterfaceBusyError(KernelError):
    """Another XDP program is attached to the interface."""


class TablesFullError(KernelError):
    """A table of the program has no room left."""
