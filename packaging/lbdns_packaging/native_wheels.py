"""Builds the wheels of lbdns-native for old versions of glibc, on x86-64 and arm64, without a cross compiler.

They are compiled by the Rust compiler of Debian 13 and linked by zig, so every machine produces the same bytes.
"""

from __future__ import annotations

import shutil
import sysconfig
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from lbdns_packaging.program_runs import run_program
from lbdns_packaging.root_file_systems import PackagingError, RootFileSystem, command_inside
from lbdns_packaging.source_tree import empty_folder

#: glibc 2.17 is of 2012: Debian 8, RHEL 7
COMPATIBILITY: Final = "manylinux2014"
#: Rust's name of a target -> Debian's name of the processor
TARGETS: Final = {"x86_64-unknown-linux-gnu": "amd64", "aarch64-unknown-linux-gnu": "arm64"}
BUILD_ROOT: Final = RootFileSystem(
    "trixie", ("rustc", "cargo", "ca-certificates", "libstd-rust-dev:arm64"), ("amd64", "arm64")
)
_TRUSTED: Final = Path(
    "/etc/ssl/certs/ca-certificates.crt"
)  # the host's certificates, which its package mirror may need


def build_native_wheels(source: Path, out: Path, epoch: int, work: Path) -> list[Path]:
    """Build a source archive and a wheel for each of ``TARGETS``, and return the files in ``out``.

    ``source`` is a copy of the source tree. Files that may be reused are in ``work``: downloaded crates and the root
    file system. Needs root. Raises PackagingError with the compiler's messages.
    """
    root = work / "native-root"
    unpacked = root / ".unpacked"
    if not unpacked.exists() or unpacked.read_text() != BUILD_ROOT.name:
        BUILD_ROOT.unpack(work / "roots", root)
        unpacked.write_text(BUILD_ROOT.name)
    shutil.copy(Path(sysconfig.get_path("scripts")) / "maturin", root / "usr" / "local" / "bin")
    shutil.copy(_TRUSTED, root / "etc" / "ssl" / "certs")
    crates = work / "crates"
    crates.mkdir(parents=True, exist_ok=True)
    results = empty_folder(work / "native-out")
    binds = {source: "/build/source", crates: "/build/crates", results: "/build/out", _zig(): "/opt/zig"}
    environment = {
        "CARGO_HOME": "/build/crates",
        "CARGO_TARGET_DIR": "/build/target",
        "CARGO_ZIGBUILD_ZIG_PATH": "/opt/zig/zig",
        "HOME": "/root",
        "RUSTFLAGS": "--remap-path-prefix=/build=.",
        "SOURCE_DATE_EPOCH": str(epoch),
    }

    def run(*command: str, network: bool = False) -> None:
        whole = command_inside(root, command, network=network, binds=binds, environment=environment)
        result = run_program(whole)
        if result.returncode:
            raise PackagingError(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")

    manifest = ("--manifest-path", "/build/source/native/Cargo.toml")
    empty_folder(root / "build" / "target")
    run("cargo", "fetch", "--locked", *manifest, network=True)
    run("maturin", "sdist", *manifest, "--out", "/build/out")
    for target in TARGETS:
        run(
            "maturin", "build", "--release", "--offline", "--zig", "--target", target, *manifest,
            "--compatibility", COMPATIBILITY, "--out", "/build/out",
        )  # fmt: skip
    return [Path(shutil.copy(path, out)) for path in sorted(results.iterdir())]


def _zig() -> Path:
    for file in distribution("ziglang").files or ():
        if file.as_posix() == "ziglang/zig":
            return Path(str(file.locate())).parent
    raise PackagingError("zig not found: run 'make dist', which installs it")
