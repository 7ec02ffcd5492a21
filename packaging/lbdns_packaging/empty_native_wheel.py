"""Writes a wheel of lbdns-native that contains no module, for platforms without a compiled wheel.

lbdns depends on lbdns-native. pip prefers a compiled wheel. On platforms without one (musl, other processors, PyPy),
pip installs this wheel, and lbdns answers in Python. Without this wheel, pip would try to compile the source, which
fails if there is no Rust compiler.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Final

from lbdns_packaging.archives import zip_bytes

_TAG: Final = "py3-none-any"


def build_empty_native_wheel(source: Path, out: Path, epoch: int, version: str) -> Path:
    """Write the wheel for ``version`` to ``out``, with the licence from ``source``, and return its path."""
    info = f"lbdns_native-{version}.dist-info"
    metadata = (
        "Metadata-Version: 2.4\n"
        "Name: lbdns-native\n"
        f"Version: {version}\n"
        "Summary: Empty package: lbdns has no compiled fast path for this platform and answers in Python instead\n"
        "Author: The lbdns authors\n"
        "License-Expression: MIT\n"
        "License-File: LICENSE\n"
        "Requires-Python: >=3.11\n"
    )
    files = {
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: lbdns\nRoot-Is-Purelib: true\nTag: {_TAG}\n".encode(),
        f"{info}/licenses/LICENSE": (source / "native" / "LICENSE").read_bytes(),
    }
    record = "".join(f"{name},{_digest(content)},{len(content)}\n" for name, content in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = out / f"lbdns_native-{version}-{_TAG}.whl"
    path.write_bytes(zip_bytes(files, epoch))
    return path


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
