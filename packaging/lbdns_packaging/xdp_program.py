"""Builds the XDP program for the wheel of lbdns. The same object file is for all processors, since BPF is portable."""

from __future__ import annotations

import shutil
from pathlib import Path

from lbdns_packaging.program_runs import run_program
from lbdns_packaging.root_file_systems import PackagingError
from lbdns_packaging.source_tree import normalise


def build_xdp_program(source: Path, epoch: int) -> None:
    """Build the program in a copy of the source tree, where the wheel takes it from.

    Raises PackagingError if clang is missing, or CalledProcessError with the compiler's messages.
    """
    if not shutil.which("clang"):
        raise PackagingError("the XDP program needs clang: run 'make deps-packaging' as root")
    run_program(["make", "--no-print-directory", "xdp"], folder=source, check=True)
    normalise(source / "lbdns" / "server" / "xdp", epoch)
