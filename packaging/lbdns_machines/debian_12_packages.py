"""Builds only the packages that the quick form installs: server and agent for Debian 12 on amd64."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

from lbdns_packaging.debian_releases import SERVER_RELEASES, DebianRelease
from lbdns_packaging.empty_native_wheel import build_empty_native_wheel
from lbdns_packaging.linux_packages import PackageBuilder
from lbdns_packaging.program_runs import run_program
from lbdns_packaging.python_wheels import PYTHON_DISTRIBUTIONS, build_distribution
from lbdns_packaging.source_tree import ROOT, copy_source, empty_folder, source_date_epoch, version
from lbdns_packaging.xdp_program import build_xdp_program

_NEEDED: Final = ("lbdns-agent", "lbdns")
_IN_NO_PACKAGE: Final = (b".ci/", b"docs/", b"packaging/lbdns_machines/", b"tests/")


def build_debian_12_packages(out: Path, work: Path) -> str:
    """Build the packages ``lbdns`` and ``lbdns-agent`` in the folder ``out``, and return what was built.

    If the packages in ``out`` were built from the same source files, nothing is built. The native extension is compiled
    by this machine's cargo, without a root file system; if that is impossible, the server answers in Python. The XDP
    program is included if clang is installed. Raises PackagingError or CalledProcessError.
    """
    record, sources = out / "sources.sha256", sources_digest()
    if record.exists() and record.read_text() == sources:
        return "built before from the same sources"
    empty_folder(out)
    (release,) = (release for release in SERVER_RELEASES if release.number == 12)
    epoch = source_date_epoch()
    with tempfile.TemporaryDirectory() as temporary:
        source = copy_source(Path(temporary) / "source")
        if shutil.which("clang"):
            build_xdp_program(source, epoch)
        for name in _NEEDED:
            build_distribution(source / PYTHON_DISTRIBUTIONS[name], out, "wheel", epoch)
        native = compile_native_wheel(out, release)
        if not native:
            build_empty_native_wheel(source, out, epoch, version())
        builder = PackageBuilder(source, out, work, epoch, version())
        builder.agent("deb")
        builder.server(release, "amd64", compiled=bool(native))
    record.write_text(sources)
    return "with the native extension" if native else "without the native extension"


def compile_native_wheel(out: Path, release: DebianRelease) -> Path | None:
    """Compile lbdns-native with cargo, which reuses what ``make native`` compiled, and return the wheel in ``out``.

    Returns None if there is no cargo, or if this machine's glibc is newer than that of ``release``.
    """
    if not shutil.which("cargo"):
        return None
    maturin = Path(sysconfig.get_path("scripts")) / "maturin"
    manifest = ROOT / "native" / "Cargo.toml"
    command = [str(maturin), "build", "--release", "--quiet", "--manifest-path", str(manifest), "--out", str(out)]
    run_program(command, check=True)
    (wheel,) = out.glob("lbdns_native-*.whl")
    if runs_with_glibc(wheel.name, release.glibc):
        return wheel
    wheel.unlink()
    return None


def runs_with_glibc(wheel: str, glibc: int) -> bool:
    """Return whether a wheel runs with version 2.``glibc`` of glibc, judging by its file name."""
    required = re.search(r"manylinux_2_(\d+)_", wheel)
    return required is not None and int(required[1]) <= glibc


def sources_digest() -> str:
    """Return a digest of the names and contents of the tracked files from which packages are built."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    digest = sha256()
    for name in listing.split(b"\0"):
        path = ROOT / os.fsdecode(name)
        if name and not name.startswith(_IN_NO_PACKAGE) and path.is_file():
            digest.update(name + b"\0" + sha256(path.read_bytes()).digest())
    return digest.hexdigest()
