"""Tests of reading archives: any archive that 'lbdns backup' did not write is refused with the reason."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import tracemalloc
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.backup.archive_reader import read_archive
from lbdns.backup.manifest import ArchivedFile, ArchiveError, Manifest
from tests.backup.state_folders import NOW, ZONES, archive_of, file_entry, make_state, manifest_entry, packed, with_bomb

CONTENT = b"one" * 700
ABOUT = ArchivedFile("joined.json", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), 0o644)
MANIFEST = Manifest("1.0", "ns1", NOW, ZONES, (ABOUT,))
HEAD = manifest_entry(MANIFEST.encode())
FILE = file_entry("joined.json", CONTENT)


def read(archive: bytes) -> dict[str, bytes]:
    found: dict[str, io.BytesIO] = {}
    read_archive(io.BytesIO(archive), lambda file: found.setdefault(file.name, io.BytesIO()))
    return {name: sink.getvalue() for name, sink in found.items()}


def refusal(archive: bytes) -> str:
    with pytest.raises(ArchiveError) as error:
        read(archive)
    return str(error.value)


def special(name: str, kind: bytes, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry, b""


@cache
def valid() -> bytes:
    return packed([HEAD, FILE])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    state = make_state(tmp_path)
    assert read(archive_of(state)[0]) == {path.name: path.read_bytes() for path in state.iterdir()}
    assert read(valid()) == {"joined.json": CONTENT}


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ([FILE, HEAD], "the first entry must be manifest.json"),
        ([HEAD], "entry state/joined.json is missing"),
        ([HEAD, FILE, FILE], "is not in the manifest, or occurs twice"),
        ([HEAD, FILE, HEAD], "entry 'manifest.json' is not in the manifest, or occurs twice"),
        ([HEAD, FILE, file_entry("overrides.json", b"")], "is not in the manifest"),
        ([HEAD, file_entry("joined.json", CONTENT[:-1])], "has 2099 bytes, but 2100 are in the manifest"),
        ([HEAD, file_entry("joined.json", CONTENT[:-1] + b"?")], "does not match its checksum"),
        ([HEAD, file_entry("../joined.json", CONTENT)], "entry 'state/../joined.json' is not in the manifest"),
        ([HEAD, file_entry("/etc/passwd", CONTENT, "")], "entry '/etc/passwd' is not in the manifest"),
        ([HEAD, special("state/joined.json", tarfile.SYMTYPE, "/etc/passwd")], "is a symbolic link"),
        ([HEAD, special("state/joined.json", tarfile.LNKTYPE, "/etc/passwd")], "is a hard link"),
        ([HEAD, special("state/joined.json", tarfile.CHRTYPE)], "is a device"),
        ([HEAD, special("state/joined.json", tarfile.BLKTYPE)], "is a device"),
        ([HEAD, special("state/joined.json", tarfile.FIFOTYPE)], "is a named pipe"),
        ([HEAD, special("state", tarfile.DIRTYPE), FILE], "is a directory"),
        ([HEAD, special("state/joined.json", tarfile.GNUTYPE_SPARSE)], "is of an unsupported type"),
        ([HEAD, file_entry("x" * 200, CONTENT)], "is of an unsupported type"),  # a long name has an entry of its own
    ],
)
def test_hostile_entries(entries: list[tuple[tarfile.TarInfo, bytes]], what: str) -> None:
    assert what in refusal(packed(entries))


@pytest.mark.parametrize(
    ("archive", "what"),
    [
        (b"", "ends too early"),
        (b"no gzip", "not an archive written by 'lbdns backup', or damaged"),
        (gzip.compress(b""), "ends too early"),
        (gzip.compress(b"text" * 200), "not a valid tar archive"),
        (gzip.compress(bytes(1024)), "the first entry must be manifest.json"),
        (packed([manifest_entry(b"[]"), FILE]), "the manifest is not valid"),
        (with_bomb(2**40), "the first entry must be manifest.json"),
        (with_bomb(-1), "negative size"),
        (valid() + gzip.compress(b"more"), "there is data after the last entry"),
        (valid() + gzip.compress(bytes(2**20)), "there is data after the last entry"),
        (valid() + b"more", "gzip reports an error"),
        (valid()[:-8] + bytes(8), "gzip reports an error"),
    ],
    ids=[
        "empty", "text", "no tar", "text in gzip", "no entries", "no manifest", "large first entry", "negative size",
        "second archive", "zeros after the end", "text after the end", "wrong checksum",
    ],
)  # fmt: skip
def test_what_is_no_archive(archive: bytes, what: str) -> None:
    assert what in refusal(archive)


@given(st.integers(0, len(valid()) - 1))
def test_a_truncated_archive_is_refused(length: int) -> None:
    assert refusal(valid()[:length])


@given(st.integers(10, len(valid()) - 1), st.integers(1, 255))
def test_a_damaged_archive_is_refused_or_has_the_same_content(at: int, change: int) -> None:
    """The first ten bytes, gzip's header, are not changed: their time and flags do not matter."""
    archive = bytearray(valid())
    archive[at] ^= change
    try:
        found = read(bytes(archive))
    except ArchiveError:
        return
    assert found == {"joined.json": CONTENT}


@given(st.data())
def test_a_manipulated_tar_is_refused_or_has_the_same_content(data: st.DataObject) -> None:
    """Every gzip checksum is right, so that the tar reader itself meets every mutation."""
    tar = bytearray(gzip.decompress(valid()))
    for _ in range(data.draw(st.integers(1, 5))):
        tar[data.draw(st.integers(0, 3000))] = data.draw(st.integers(0, 255))
    try:
        found = read(gzip.compress(bytes(tar), 1))
    except ArchiveError:
        return
    assert found == {"joined.json": CONTENT}


@given(st.lists(st.tuples(st.text(max_size=30), st.sampled_from([b"0", b"1", b"2", b"5", b"L", b"x"]), st.binary())))
def test_arbitrary_entries_are_refused(made: list[tuple[str, bytes, bytes]]) -> None:
    entries = []
    for name, kind, content in made:
        entry = tarfile.TarInfo(name.replace("\0", "") or "x")
        entry.type, entry.size = kind, len(content)
        entries.append((entry, content))
    assert refusal(packed([HEAD, *entries]))


def test_a_bomb_takes_no_memory() -> None:
    """16 MB of zeros in 16 kB are written to the sink piece by piece."""
    size = 2**24
    about = ArchivedFile("joined.json", size, "0" * 64, 0o600)
    head, data = manifest_entry(Manifest("1", "", NOW, (), (about,)).encode())
    entry = tarfile.TarInfo("state/joined.json")
    entry.size = size
    archive = gzip.compress(packed_plain([(head, data)]) + entry.tobuf(tarfile.GNU_FORMAT) + bytes(size), 1)

    class Nothing:
        def write(self, data: bytes, /) -> None:
            pass

    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match="checksum"):
            read_archive(io.BytesIO(archive), lambda _: Nothing())
        assert tracemalloc.get_traced_memory()[1] < 2**21
    finally:
        tracemalloc.stop()


def packed_plain(entries: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """Return the entries as tar, without the end of an archive."""
    return b"".join(
        entry.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE)
        for entry, content in entries
    )
