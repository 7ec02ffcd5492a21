"""Tests of the manifest: what is written is read, and anything else is one clear error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.backup.manifest import FORMAT, ArchivedFile, ArchiveError, Manifest, parse_manifest
from lbdns.backup.state_files import STATE_FILES

DIGEST = "0123456789abcdef" * 4
FILE = ArchivedFile("overrides.json", 12, DIGEST, 0o600)
MANIFEST = Manifest("1.2", "ns1", 1_800_000_000.0, ("hobbit", ""), (FILE,), ("history.db",))

files = st.builds(
    ArchivedFile, st.sampled_from(sorted(STATE_FILES)), st.integers(0, 2**60),
    st.text("0123456789abcdef", min_size=64, max_size=64), st.integers(0, 0o777),
)  # fmt: skip
manifests = st.builds(
    Manifest, st.text(), st.text(), st.floats(0, 2**36), st.lists(st.text()).map(tuple),
    st.lists(files, unique_by=lambda file: file.name, min_size=1).map(tuple),
)  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@given(manifests)
def test_what_is_written_is_read(manifest: Manifest) -> None:
    assert parse_manifest(manifest.encode()) == manifest


def test_files_may_be_left_out() -> None:
    assert parse_manifest(MANIFEST.encode()) == MANIFEST


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_anything_else_is_an_error(data: bytes) -> None:
    with pytest.raises(ArchiveError, match="the manifest is not valid"):
        parse_manifest(data)


@given(key=st.sampled_from(sorted(json.loads(MANIFEST.encode()))), value=json_values)
def test_a_value_that_does_not_fit_is_an_error(key: str, value: Any) -> None:
    document = json.loads(MANIFEST.encode())
    document[key] = value
    try:
        found = parse_manifest(json.dumps(document).encode())
    except ArchiveError:
        return
    assert all(file.name in STATE_FILES for file in found.files)
    assert 0 <= found.time < 2**37


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"files": [{"name": "../lbdns.toml", "bytes": 1, "sha256": DIGEST, "mode": 0o600}]}, "not a state file"),
        ({"files": [{"name": "joined.json", "bytes": -1, "sha256": DIGEST, "mode": 0o600}]}, "bytes must be"),
        ({"files": [{"name": "joined.json", "bytes": 1, "sha256": "0" * 63, "mode": 0o600}]}, "sha256 must be"),
        ({"files": [{"name": "joined.json", "bytes": 1, "sha256": DIGEST, "mode": 0o4755}]}, "mode must be"),
        ({"files": []}, "no file is listed"),
        ({"left_out": ["overrides.json"]}, "listed twice"),
        ({"left_out": ["passwd"]}, "not a state file"),
        ({"time": 1e300}, "time must be"),
        ({"program": "tar"}, "not written by lbdns"),
        ({"format": 0}, "not written by lbdns"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], what: str) -> None:
    document = {**json.loads(MANIFEST.encode()), **change}
    with pytest.raises(ArchiveError, match=what):
        parse_manifest(json.dumps(document).encode())


def test_a_newer_format_is_refused_with_the_reason() -> None:
    document = {"program": "lbdns", "format": FORMAT + 1, "version": "9.0"}
    with pytest.raises(ArchiveError) as refusal:
        parse_manifest(json.dumps(document).encode())
    assert f"lbdns '9.0' wrote it in format {FORMAT + 1}" in str(refusal.value)
    assert "install the newer version of lbdns first" in str(refusal.value)


@pytest.mark.parametrize(("mode", "safe"), [(0o600, 0o600), (0o644, 0o644), (0o777, 0o644), (0o000, 0o600)])
def test_permissions_are_limited(mode: int, safe: int) -> None:
    assert ArchivedFile("joined.json", 0, DIGEST, mode).safe_mode == safe
