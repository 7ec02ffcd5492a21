"""The result of a probe or of a check."""

from __future__ import annotations

from typing import Final, NamedTuple


class ProbeResult(NamedTuple):
    """The result of a probe. If the probe could not be carried out, ``passed`` is None.

    ``reason`` states why the probe did not pass.
    """

    passed: bool | None
    reason: str = ""


PASSED: Final = ProbeResult(True)
