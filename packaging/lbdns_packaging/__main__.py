"""``python -m lbdns_packaging`` builds the artefacts that users install; the Makefile's targets run it."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lbdns_packaging.agent_zipapp import build_agent_zipapp
from lbdns_packaging.arm64_check import check_arm64
from lbdns_packaging.container_check import check_container
from lbdns_packaging.debian_releases import SERVER_RELEASES
from lbdns_packaging.empty_native_wheel import build_empty_native_wheel
from lbdns_packaging.install_checks import CHECKS, run_check
from lbdns_packaging.linux_packages import PackageBuilder
from lbdns_packaging.native_wheels import build_native_wheels
from lbdns_packaging.python_wheels import build_python_wheels
from lbdns_packaging.root_file_systems import PackagingError
from lbdns_packaging.source_tree import ROOT, copy_source, source_date_epoch, version
from lbdns_packaging.xdp_program import build_xdp_program


def build_wheels(out: Path) -> list[Path]:
    """Build what doesn't need root: the distributions in Python, with the XDP program, and the agent as one file."""
    epoch = source_date_epoch()
    with tempfile.TemporaryDirectory() as temporary:
        source = copy_source(Path(temporary) / "source")
        build_xdp_program(source, epoch)
        return [
            build_agent_zipapp(source, out, epoch),
            build_empty_native_wheel(source, out, epoch, version()),
            *build_python_wheels(source, out, epoch),
        ]


def build_native(out: Path) -> list[Path]:
    """Build the compiled wheels and the source archive of lbdns-native. Needs root."""
    with tempfile.TemporaryDirectory() as temporary:
        source = copy_source(Path(temporary) / "source")
        return build_native_wheels(source, out, source_date_epoch(), WORK)


def build_packages(out: Path) -> list[Path]:
    """Build the packages of Debian and RPM from the wheels in ``out``."""
    with tempfile.TemporaryDirectory() as temporary:
        source = copy_source(Path(temporary) / "source")
        return PackageBuilder(source, out, WORK, source_date_epoch(), version()).build_all()


def check_artefacts(out: Path) -> list[Path]:
    """Install and run the artefacts in ``out`` in root file systems. Needs root."""
    checks: dict[str, Callable[[Path, Path, str], None]] = {
        check.name: partial(run_check, check, ROOT) for check in CHECKS
    }
    for release in SERVER_RELEASES:
        checks[f"server for arm64 on {release.codename}"] = partial(check_arm64, release)
    for name, check in checks.items():
        print(f"{name}: ", end="", flush=True)
        began = time.monotonic()
        check(out, WORK, version())
        print(f"good, {time.monotonic() - began:.0f} s")
    return []


def check_image(out: Path) -> list[Path]:
    """Build the Containerfile's image from the package in ``out``, and run it. Needs root."""
    began = time.monotonic()
    check_container(out, WORK, version())
    print(f"image: good, {time.monotonic() - began:.0f} s")
    return []


#: Downloads and root file systems, which later runs reuse, and what is being built
WORK = ROOT / "build" / "packaging"
PARTS = {
    "wheels": build_wheels, "native": build_native, "packages": build_packages, "check": check_artefacts,
    "image": check_image,
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lbdns_packaging", description=__doc__)
    parser.add_argument(
        "part",
        choices=sorted(PARTS),
        help="what to build, 'check' to install and run the artefacts, or 'image' to build and run the container image",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the artefacts (default: dist)")
    options = parser.parse_args(arguments)
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        built = PARTS[options.part](out)
    except PackagingError as error:
        print(f"lbdns_packaging: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"lbdns_packaging: {error}\n{error.stdout or ''}{error.stderr or ''}", file=sys.stderr)
        return 1
    for path in built:
        path.chmod(0o755 if path.suffix == ".pyz" else 0o644)
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
