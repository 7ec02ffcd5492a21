"""Coverage-guided search: libFuzzer, called via atheris, runs inputs against a target and continues after failures."""

from __future__ import annotations

import hashlib
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import atheris

from lbdns_tools.fuzz.fuzz_targets import TARGETS, FuzzTarget, load_target, run_target

RSS_LIMIT: Final = 1024  # MB; an instrumented target needs 100 to 300
HANG: Final = 60  # seconds of real time, generous for a busy machine; a target's SECONDS limit the CPU time


def search(name: str, seconds: int, corpus: Path | None, found: Path) -> int:
    """Start a search from the seeds and ``corpus``, add new inputs to ``corpus``, and return 1 if any input failed."""
    found.mkdir(parents=True, exist_ok=True)
    before = set(found.iterdir())
    with tempfile.TemporaryDirectory(prefix="lbdns-fuzz-") as folder:
        # libFuzzer ends the process that it runs in, with status 0, so the search runs in a process of its own
        child = os.fork()
        if not child:
            _search_and_end(name, seconds, corpus or Path(folder, "corpus"), found, Path(folder))
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) or int(set(found.iterdir()) != before)


def _search_and_end(name: str, seconds: int, corpus: Path, found: Path, folder: Path) -> NoReturn:
    with atheris.instrument_imports(include=list(TARGETS[name])):
        target = load_target(name)
    words, seeds = folder / "words", folder / "seeds"
    entries = ("".join(f"\\x{octet:02x}" for octet in word) for word in target.WORDS)
    words.write_text("".join(f'"{entry}"\n' for entry in entries))
    seeds.mkdir()
    for seed_name, data in target.seeds().items():
        (seeds / seed_name).write_bytes(data)
    corpus.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}", f"-max_len={target.MAX_LENGTH}", f"-dict={words}", f"-timeout={HANG}",
        f"-rss_limit_mb={RSS_LIMIT}", f"-artifact_prefix={found}/", "-print_final_stats=1",
    ]  # fmt: skip

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        return target.mutate(data, max_size, random.Random(seed), atheris.Mutate)

    arguments = [sys.argv[0], *options, str(corpus), str(seeds)]
    atheris.Setup(arguments, findings_writer(target, found), custom_mutator=mutate)
    atheris.Fuzz()
    os._exit(0)


def findings_writer(target: FuzzTarget, folder: Path) -> Callable[[bytes], None]:
    """Return a function that runs an input, saves the first input for each kind of failure, and never raises an
    exception."""
    places: set[str] = set()

    def try_input(data: bytes) -> None:
        try:
            run_target(target, data)
        except Exception as error:
            place = _place(error)
            if place not in places:
                places.add(place)
                path = folder / f"found-{hashlib.sha256(data).hexdigest()[:12]}"
                path.write_bytes(data)
                print(f"found {path}: {place}", flush=True)
                traceback.print_exception(error, file=sys.stdout)

    return try_input


def _place(error: Exception) -> str:
    """Return a string that identifies a failure: the exception's type and the last lines of its traceback."""
    frames = traceback.extract_tb(error.__traceback__)[-2:]
    return " < ".join([type(error).__name__, *(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))])
