"""Adds the files of a package that are generated from its programs: manual pages and completions."""

from __future__ import annotations

from pathlib import Path

from lbdns_packaging.command_descriptions import PROGRAMS, describe_program
from lbdns_packaging.completions import SHELLS
from lbdns_packaging.extra_files import KINDS, compressed_text
from lbdns_packaging.man_pages import SECTION, man_page

ALL_PROGRAMS = tuple(program for programs in PROGRAMS.values() for program in programs)


def stage_generated_files(package: str, stage: Path, epoch: int, version: str) -> None:
    """Write the manual pages and completions of the programs of ``package`` to the package's tree ``stage``."""
    for program in PROGRAMS[package]:
        described = describe_program(package, program)
        others = [other for other in ALL_PROGRAMS if other != program]
        page = stage / "usr" / "share" / "man" / f"man{SECTION}" / f"{program}.{SECTION}.gz"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_bytes(compressed_text(man_page(described, epoch, version, others)))
        for shell, (write, name) in SHELLS.items():
            path = stage / KINDS[f"completions/{shell}"] / name.format(program)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(write(described))
