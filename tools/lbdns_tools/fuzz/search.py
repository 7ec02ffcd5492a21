"""The search: libFuzzer, by way of atheris, drives a target and goes on after what it finds."""

from __future__ import annotations

import hashlib
import os
import random
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Final, NoReturn

import atheris

from lbdns_tools.fuzz.targets import TARGETS, Target, load, run

RSS_LIMIT: Final = 1024  # MB: what an instrumented target needs is 100 to 300
HANG: Final = 60  # seconds of real time: beside others an input may be slow without being wrong; SECONDS says what is


def search(name: str, seconds: int, corpus: Path | None, found: Path) -> int:
    """Search for ``seconds`` from the seeds and what ``corpus`` holds; what is wrong goes to the folder ``found``.

    ``corpus`` gets what reaches something new. Returns 1 if anything was found, else 0.
    """
    found.mkdir(parents=True, exist_ok=True)
    before = set(found.iterdir())
    with tempfile.TemporaryDirectory(prefix="lbdns-fuzz-") as folder:
        # libFuzzer ends the process it runs in, as if all were well; so it has one of its own
        child = os.fork()
        if not child:
            _search_and_end(name, seconds, corpus or Path(folder, "corpus"), found, Path(folder))
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) or int(set(found.iterdir()) != before)


def _search_and_end(name: str, seconds: int, corpus: Path, found: Path, folder: Path) -> NoReturn:
    with atheris.instrument_imports(include=list(TARGETS[name].guided_by)):
        target = load(name)
    words, seeds = folder / "words", folder / "seeds"
    words.write_text("".join(f'"{_quoted(word)}"\n' for word in target.WORDS))
    write_seeds(target, seeds)
    corpus.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}", f"-max_len={target.MAX_LENGTH}", f"-dict={words}", f"-timeout={HANG}",
        f"-rss_limit_mb={RSS_LIMIT}", f"-artifact_prefix={found}/", "-print_final_stats=1",
    ]  # fmt: skip

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        return target.mutate(data, max_size, random.Random(seed), atheris.Mutate)

    arguments = [sys.argv[0], *options, str(corpus), str(seeds)]
    atheris.Setup(arguments, Findings(target, found).try_one, custom_mutator=mutate)
    atheris.Fuzz()
    os._exit(0)


def write_seeds(target: Target, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in target.seeds().items():
        (folder / name).write_bytes(data)


def _quoted(word: bytes) -> str:
    return "".join(f"\\x{octet:02x}" for octet in word)


class Findings:
    """Writes the first input of each kind that goes wrong, and lets the search go on."""

    def __init__(self, target: Target, folder: Path) -> None:
        self._target = target
        self._folder = folder
        self.places: set[str] = set()

    def try_one(self, data: bytes) -> None:
        try:
            run(self._target, data)
        except Exception as error:
            place = _place(error)
            if place not in self.places:
                self.places.add(place)
                path = self._folder / f"found-{hashlib.sha256(data).hexdigest()[:12]}"
                path.write_bytes(data)
                print(f"found {path}: {place}", flush=True)
                traceback.print_exception(error, file=sys.stdout)


def _place(error: Exception) -> str:
    """What tells one mistake from another: the error's kind and the last lines that it came through."""
    frames = traceback.extract_tb(error.__traceback__)[-2:]
    return " < ".join([type(error).__name__, *(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))])
