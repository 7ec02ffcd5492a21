"""The configuration of a live server, changed for a trial and put back whatever happens.

Before the first change the file is copied beside itself. The copy goes away when the file is as it was; one that is
found at the start tells of a calibration that was killed before it could put things back.
"""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from lbdns.config import DEFAULT_NAMES, Config, load_config
from lbdns.control_client import order
from lbdns.errors import ConfigError, LbdnsError
from lbdns_tools.calibrate.toml_text import to_toml
from lbdns_tools.calibrate.trial import Trial

SUFFIX: Final = ".before-calibration"
TRIAL_SCORE: Final = "calibration-trial"  # the table of the trial's score
_BY_SCORE: Final = ("best", "best_score")  # names with these policies take part in a trial


def with_trial(values: Mapping[str, Any], trial: Trial) -> dict[str, Any]:
    """The values of a configuration, changed so that ``trial`` chooses. Raises ConfigError if nobody asks for it."""
    changed = copy.deepcopy(dict(values))
    collector = changed.setdefault("collector", {})
    for key in [key for key in collector if key.startswith(("adapt", "shadow"))]:
        del collector[key]  # nothing else may move during a trial, and its score is nobody's shadow
    collector["score"] = "thesis" if trial.terms is None else TRIAL_SCORE
    if trial.terms is not None:
        changed.setdefault("score", {})[TRIAL_SCORE] = {
            metric: {"weight": term.weight, "limit": term.limit, "better": term.better, "cap": term.cap}
            for metric, term in trial.terms.items()
        }
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
            "no name of any pool has policy best or best_score, so no score decides anything: nothing to try"
        )
    return changed


class LiveConfig:
    """The configuration file of a running server that reads it again when it is told to."""

    def __init__(self, path: Path, control: Path | None = None) -> None:
        """Raises ConfigError."""
        self.path = path.resolve()
        self.config: Config = load_config(self.path)
        if self.config.collector.connect:
            raise ConfigError(
                f"{path}: [collector] connect: scores are made by the collector that is followed; calibrate there"
            )
        self._control = control or self.config.server.control
        self._values = tomllib.loads(self.path.read_text())
        with_trial(self._values, Trial("any", "best_score"))  # whether that can be done, before anything is changed

    @property
    def copy(self) -> Path:
        return self.path.with_name(self.path.name + SUFFIX)

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Inside, trials may be set; afterwards the file is what it was, and the server told so. Raises LbdnsError."""
        if self.copy.exists():
            raise ConfigError(
                f"{self.copy}: a calibration that was killed has left the configuration of before. Put it back "
                f"(mv {self.copy} {self.path}; lbdns reload) or, if {self.path} is right as it is, remove it"
            )
        half = self.copy.with_name(self.copy.name + "~")
        try:
            shutil.copy2(self.path, half)
            stat = self.path.stat()
            os.chown(half, stat.st_uid, stat.st_gid)
            os.rename(half, self.copy)  # never half a copy under the name that is put back
        except OSError as error:
            half.unlink(missing_ok=True)
            raise LbdnsError(f"{self.copy}: {error.strerror}: no trial without a copy of the configuration") from None
        try:
            yield
        finally:
            os.replace(self.copy, self.path)
            self._reload(f"{self.path} is as it was before, but the server did not read it")

    def set(self, trial: Trial) -> None:
        """Have the server choose by ``trial``; only inside ``kept``. Raises LbdnsError."""
        # In place, not replaced: owner and mode stay as they are
        self.path.write_text(to_toml(with_trial(self._values, trial)))
        self._reload(f"{trial.name}: the server did not take the trial's configuration")

    def _reload(self, what_if_not: str) -> None:
        try:
            order(self._control, "reload")
        except LbdnsError as error:
            raise LbdnsError(f"{what_if_not}: {error}") from None
