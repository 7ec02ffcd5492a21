"""Builds the wheels and source archives of the distributions that are written in Python alone."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from lbdns_packaging.archives import repack_tar_gz
from lbdns_packaging.program_runs import run_program, temporary_folder

#: Distribution -> its folder
PYTHON_DISTRIBUTIONS: Final = {"lbdns-agent": "agent", "lbdns": ".", "lbdns-tools": "tools"}
_BUILD: Final = (
    "import sys; from setuptools import build_meta; getattr(build_meta, 'build_' + sys.argv[1])(sys.argv[2])"
)


def build_python_wheels(source: Path, out: Path, epoch: int) -> list[Path]:
    """Build a wheel and a source archive of each distribution in ``source``; return the files written to ``out``.

    Building changes ``source``. Raises CalledProcessError, whose ``stderr`` gives the reason.
    """
    return [
        build_distribution(source / folder, out, kind, epoch)
        for folder in PYTHON_DISTRIBUTIONS.values()
        for kind in ("sdist", "wheel")
    ]


def build_distribution(folder: Path, out: Path, kind: str, epoch: int) -> Path:
    """Build the ``kind`` ("wheel" or "sdist") of the distribution in ``folder``, and return the file in ``out``."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    # In a folder of its own, since an earlier build may have left a file with the same name in 'out'
    with temporary_folder() as temporary:
        command = [sys.executable, "-c", _BUILD, kind, str(temporary)]
        run_program(command, folder=folder, environment=environment, check=True)
        (built,) = temporary.iterdir()
        if kind == "sdist":
            repack_tar_gz(built, epoch)
        return Path(shutil.copy(built, out))
