"""Builds all Debian and RPM packages from wheels that have already been built."""

from __future__ import annotations

from pathlib import Path

from lbdns_packaging.debian_releases import MACHINES, SERVER_RELEASES, DebianRelease
from lbdns_packaging.generated_files import stage_generated_files
from lbdns_packaging.nfpm_packages import build_package
from lbdns_packaging.package_descriptions import PackageDescription, agent_package, server_package, tools_package
from lbdns_packaging.root_file_systems import PackagingError
from lbdns_packaging.server_environment import download_dependencies
from lbdns_packaging.source_tree import empty_folder
from lbdns_packaging.staged_trees import stage_agent, stage_server, stage_tools


class PackageBuilder:
    """Builds packages from the source tree ``source`` and the wheels in ``out``, and writes them to ``out``.

    Raises PackagingError if a wheel is missing, or a program fails.
    """

    def __init__(self, source: Path, out: Path, work: Path, epoch: int, version: str) -> None:
        self._source, self._out, self._epoch, self._version = source, out, epoch, version
        self._stages = empty_folder(work / "stages")
        self._downloads = work / "wheels"

    def build_all(self) -> list[Path]:
        """Build every package, and return the files."""
        built = [self.agent("deb"), self.agent("rpm")]
        for release in SERVER_RELEASES:
            built += [self.server(release, architecture) for architecture in MACHINES]
            built.append(self.tools(release))
        return built

    def agent(self, form: str) -> Path:
        """Build the agent's package of format ``form``."""
        stage = empty_folder(self._stages / f"lbdns-agent-{form}")
        stage_agent(self._source, stage)
        self._generate("lbdns-agent", stage)
        return self._package(agent_package(), form, stage)

    def server(self, release: DebianRelease, architecture: str, *, compiled: bool = True) -> Path:
        """Build the server's package for a Debian release and a processor.

        With ``compiled=False``, the package contains the empty wheel of lbdns-native, and the server answers in Python.
        """
        name = f"{release.codename}-{architecture}"
        stage = empty_folder(self._stages / f"lbdns-{name}")
        lock = self._source / "requirements.lock"
        dependencies = download_dependencies(lock, release, architecture, self._downloads / name)
        native = f"*-abi3-*{MACHINES[architecture]}" if compiled else "py3-none-any"
        wheels = [
            self._wheel("lbdns-*-py3-none-any.whl"),
            self._wheel("lbdns_agent-*-py3-none-any.whl"),
            self._wheel(f"lbdns_native-*-{native}.whl"),
        ]
        stage_server(self._source, stage, release, wheels, dependencies)
        self._generate("lbdns", stage)
        return self._package(server_package(release, architecture), "deb", stage)

    def tools(self, release: DebianRelease) -> Path:
        """Build the tools' package for a Debian release."""
        stage = empty_folder(self._stages / f"lbdns-tools-{release.codename}")
        stage_tools(self._source, stage, release, self._wheel("lbdns_tools-*-py3-none-any.whl"))
        self._generate("lbdns-tools", stage)
        return self._package(tools_package(release, self._version), "deb", stage)

    def _generate(self, package: str, stage: Path) -> None:
        stage_generated_files(package, stage, self._epoch, self._version)

    def _wheel(self, pattern: str) -> Path:
        found = sorted(self._out.glob(pattern.replace("*", self._version, 1)))
        if len(found) != 1:
            raise PackagingError(
                f"{self._out} must contain one wheel {pattern}, but contains {len(found)}; run 'make dist' first"
            )
        return found[0]

    def _package(self, description: PackageDescription, form: str, stage: Path) -> Path:
        scripts = self._source / "packaging" / "scripts"
        return build_package(description, form, stage, scripts, self._out, self._epoch, self._version)
