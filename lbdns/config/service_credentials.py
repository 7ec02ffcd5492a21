"""Finds the service manager's copies of files that hold secrets (LoadCredential= of systemd.exec(5))."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final


class ServiceCredentials:
    """The credentials that the service manager has passed to this process; none before ``use`` is called."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def use(self, environment: Mapping[str, str]) -> None:
        """Use the credentials in the directory that ``environment`` names, if it names one."""
        folder = environment.get("CREDENTIALS_DIRECTORY", "")
        self._folder = Path(folder) if folder else None

    def copy_or(self, path: Path) -> Path:
        """Return the copy that the service manager has made of a file, or ``path`` if there is none.

        If a unit loads a whole directory, systemd adds a prefix to each file name. For example, the copy of
        ``/etc/lbdns/keys/report.key`` is the credential ``keys_report.key``. Only root needs read access to the
        original.
        """
        copy = self._folder and self._folder / f"{path.absolute().parent.name}_{path.name}"
        return copy if copy and copy.is_file() else path


#: The credentials of this process. A service calls ``CREDENTIALS.use`` before it reads its configuration.
CREDENTIALS: Final = ServiceCredentials()
