"""Copies the files of a package that no wheel contains, such as configuration and units.

They are in ``packaging/KIND/PACKAGE/``. Every file there becomes part of the package; to add a file, put it there.
"""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Final

#: Kind -> the folder that the package's files of this kind are installed in
KINDS: Final = {
    "etc": "etc",
    "systemd": "usr/lib/systemd/system",
    "presets": "usr/lib/systemd/system-preset",
    "sysusers": "usr/lib/sysusers.d",
    "tmpfiles": "usr/lib/tmpfiles.d",
    "completions/bash": "usr/share/bash-completion/completions",
    "completions/zsh": "usr/share/zsh/vendor-completions",
    "completions/fish": "usr/share/fish/vendor_completions.d",
}


def stage_extra_files(source: Path, package: str, stage: Path) -> None:
    """Copy the extra files of ``package`` from the source tree ``source`` to the package's tree ``stage``."""
    for kind, target in KINDS.items():
        folder = source / "packaging" / kind / package
        if folder.is_dir():
            shutil.copytree(folder, stage / target, dirs_exist_ok=True)
    documents = stage / "usr" / "share" / "doc" / package
    documents.mkdir(parents=True)
    shutil.copy(source / "LICENSE", documents / "copyright")
    (documents / "changelog.gz").write_bytes(compressed(source / "CHANGELOG.md"))


def compressed(path: Path) -> bytes:
    """Return the file's contents, compressed by gzip; the result depends only on the contents."""
    return gzip.compress(path.read_bytes(), compresslevel=9, mtime=0)


def compressed_text(text: str) -> bytes:
    """Return ``text``, compressed like a file in ``compressed``."""
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def units(stage: Path) -> list[str]:
    """Return the names of the units in a package's tree."""
    return sorted(path.name for path in (stage / KINDS["systemd"]).glob("*") if path.is_file())
