"""Tests of the files of a package that are in no wheel."""

from __future__ import annotations

import gzip
from pathlib import Path

from lbdns_packaging.extra_files import stage_extra_files, units


def test_each_kind_goes_into_its_folder(tmp_path: Path) -> None:
    source, stage = tmp_path / "source", tmp_path / "stage"
    for name in (
        "systemd/lbdns/lbdns.service", "systemd/lbdns/lbdns.socket", "systemd/lbdns-agent/lbdns-agent.service",
        "etc/lbdns/lbdns/lbdns.toml",
    ):  # fmt: skip
        path = source / "packaging" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (source / "LICENSE").write_text("licence")
    (source / "CHANGELOG.md").write_text("changes")
    stage_extra_files(source, "lbdns", stage)
    assert sorted(str(path.relative_to(stage)) for path in stage.rglob("*") if path.is_file()) == [
        "etc/lbdns/lbdns.toml",
        "usr/lib/systemd/system/lbdns.service",
        "usr/lib/systemd/system/lbdns.socket",
        "usr/share/doc/lbdns/changelog.gz",
        "usr/share/doc/lbdns/copyright",
    ]
    assert units(stage) == ["lbdns.service", "lbdns.socket"]
    changes = (stage / "usr/share/doc/lbdns/changelog.gz").read_bytes()
    assert gzip.decompress(changes) == b"changes"
    assert changes[4:8] == bytes(4), "no time in the header of gzip"
