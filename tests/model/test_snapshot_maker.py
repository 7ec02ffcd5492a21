"""Tests of the snapshots that a program makes from the readings that it follows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lbdns.model.snapshot import EMPTY_SNAPSHOT, Reading, changed_members
from lbdns.model.snapshot_maker import SnapshotMaker

SOME_READINGS = st.dictionaries(st.sampled_from("abcdef"), st.builds(Reading, st.just(1.0), st.just(1.0), st.just(50)))


@given(st.lists(st.tuples(st.booleans(), SOME_READINGS, st.booleans())))
def test_snapshots_contain_the_newest_readings_and_what_has_changed(
    steps: list[tuple[bool, dict[str, Reading], bool]],
) -> None:
    """Each step replaces all readings or some, and perhaps makes a snapshot."""
    maker, expected = SnapshotMaker(), dict[str, Reading]()
    snapshots = [EMPTY_SNAPSHOT, maker.make()]
    for is_whole, readings, makes in steps:
        if is_whole:
            expected = dict(readings)
            maker.replace_all(readings)
        else:
            expected = {**expected, **readings}
            maker.update(readings)
        if makes:
            snapshots.append(maker.make())
            assert snapshots[-1].readings == expected
    for before in snapshots:
        after = snapshots[-1]
        changed = [name for name in after.readings if before.readings.get(name) is not after.readings[name]]
        assert sorted(changed_members(before, after)) == sorted(changed)
    versions = [snapshot.version for snapshot in snapshots]
    assert versions == sorted(set(versions))


def test_a_snapshot_is_not_changed_by_later_readings() -> None:
    maker = SnapshotMaker()
    maker.update({"a": Reading(1.0, 1.0, 50)})
    before = maker.make()
    maker.update({"a": Reading(2.0, 1.0, 60), "b": Reading(2.0, 1.0, 60)})
    assert before.readings == {"a": Reading(1.0, 1.0, 50)}
