"""Changes a live server's configuration file for each trial, and always restores the original at the end.

Before the first change, the configuration file is copied to another file in the same directory. Restoring the file
removes the copy. If a copy already exists, an earlier calibration was killed before it could restore the file.
"""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from lbdns.client.control_client import send_command
from lbdns.config import DEFAULT_NAMES, load_config
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools.calibrate.calibration_trial import CalibrationTrial
from lbdns_tools.calibrate.toml_writer import to_toml

SUFFIX: Final = ".before-calibration"
TRIAL_SCORE: Final = "calibration-trial"  # the table of the trial's score
_BY_SCORE: Final = ("best", "best_score")  # policies whose names take part in a trial


def with_trial(values: Mapping[str, Any], trial: CalibrationTrial) -> dict[str, Any]:
    """Return a copy of a configuration's values, adapted to ``trial``.

    Raises ConfigError if the configuration contains no name whose policy uses a score.
    """
    changed = copy.deepcopy(dict(values))
    collector = changed.setdefault("collector", {})
    for key in [key for key in collector if key.startswith(("adapt", "shadow"))]:
        del collector[key]  # nothing else may change during a trial, and no shadow may copy its score
    collector["score"] = "thesis" if trial.terms is None else TRIAL_SCORE
    if trial.terms is not None:
        changed.setdefault("score", {})[TRIAL_SCORE] = {metric: asdict(term) for metric, term in trial.terms.items()}
    taking_part = 0
    for pool in changed.get("pool", []):
        names = dict(pool.get("names", DEFAULT_NAMES))
        for owner, policy in names.items():
            if policy in _BY_SCORE:
                names[owner] = trial.policy
                taking_part += 1
        pool["names"] = names
    if not taking_part:
        raise ConfigError(
            "calibration requires a pool in which at least one name has the policy 'best' or 'best_score'"
        )
    return changed


class LiveConfiguration:
    """The configuration file of a running server, and the control socket used to reload it."""

    def __init__(self, path: Path, control: Path | None = None) -> None:
        """Raises ConfigError."""
        self.path = path.resolve()
        config = load_config(self.path)
        if config.collector.connect:
            raise ConfigError(
                f"{path}: [collector] connect: a separate collector computes the scores; "
                "use that collector's configuration file"
            )
        self._control = control or config.server.control
        self._values = tomllib.loads(self.path.read_text())
        with_trial(self._values, CalibrationTrial("any", "best_score"))  # raises ConfigError before anything is changed

    @property
    def copy(self) -> Path:
        return self.path.with_name(self.path.name + SUFFIX)

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Restore the configuration file when the context ends, and reload the server. Raises LbdnsError."""
        if self.copy.exists():
            raise ConfigError(
                f"{self.copy} exists: a calibration was killed before it could restore {self.path}. To restore it: "
                f"mv {self.copy} {self.path}; lbdns reload. To keep {self.path} as it is now: rm {self.copy}"
            )
        half = self.copy.with_name(self.copy.name + "~")
        try:
            shutil.copy2(self.path, half)
            stat = self.path.stat()
            os.chown(half, stat.st_uid, stat.st_gid)
            os.rename(half, self.copy)  # never an incomplete copy under the final name
        except OSError as error:
            half.unlink(missing_ok=True)
            raise LbdnsError(f"{self.copy}: cannot create this backup of the configuration: {error.strerror}") from None
        try:
            yield
        finally:
            os.replace(self.copy, self.path)
            self._reload(f"{self.path} is restored, but the server did not reload it")

    def set(self, trial: CalibrationTrial) -> None:
        """Reconfigure the server for ``trial``. Call this method only inside ``with kept()``. Raises LbdnsError."""
        # Written in place to preserve the owner and mode
        self.path.write_text(to_toml(with_trial(self._values, trial)))
        self._reload(f"{trial.name}: the server rejected the trial's configuration")

    def _reload(self, what_if_not: str) -> None:
        try:
            send_command(self._control, "reload")
        except LbdnsError as error:
            raise LbdnsError(f"{what_if_not}: {error}") from None
