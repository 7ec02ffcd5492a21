"""Finds the service manager's copies of files that hold secrets (LoadCredential= of systemd.exec(5))."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def credential_or(path: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the copy that the service manager has made of a file, or ``path`` if there is none.

    The copy of ``/etc/lbdns/keys/report.key`` is the credential ``keys_report.key``: if a unit loads a folder, systemd
    names the credentials in this way. Only root has to be able to read the original.
    """
    folder = environment.get("CREDENTIALS_DIRECTORY", "")
    copy = Path(folder) / f"{path.absolute().parent.name}_{path.name}"
    return copy if folder and copy.is_file() else path
