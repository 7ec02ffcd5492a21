"""Tests of the garbage collection settings: present objects are exempt, and young ones are collected rarely."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from lbdns.process.garbage_collection import THRESHOLDS, tune_collections


class Node:
    """An object in a reference cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_present_objects_are_exempt_and_new_garbage_is_still_collected() -> None:
    kept: list[list[int]] = [[] for _ in range(1000)]
    before = gc.get_freeze_count()
    tune_collections()
    assert gc.get_freeze_count() - before >= len(kept)
    garbage = weakref.ref(Node())
    gc.collect()
    assert garbage() is None


def test_young_objects_that_stay_start_few_collections() -> None:
    tune_collections()
    before = gc.get_stats()[0]["collections"]
    kept: list[list[int]] = [[] for _ in range(THRESHOLDS[0] // 2)]
    assert gc.get_stats()[0]["collections"] - before <= 1
    assert kept
