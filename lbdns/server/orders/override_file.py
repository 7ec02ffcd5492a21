"""The file that keeps overrides over restarts: read once, replaced whole with every change. Runs in threads."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from lbdns.overrides import NO_OVERRIDES, Override, Overrides, read_override

FILE_NAME: Final = "overrides.json"
MODE: Final = 0o600  # what people write as reasons is for those who may see the pages
FOLDER_MODE: Final = 0o755
_ASIDE: Final = 1000  # broken files that are kept, after which the last one is replaced


def read(path: Path) -> tuple[Overrides, str]:
    """What is in the file, and what is wrong with it. A file with anything wrong is moved aside, so that the next
    change doesn't replace it; what can be read of it is taken all the same."""
    try:
        document = json.loads(path.read_bytes())
        items = document["overrides"]
        if not isinstance(items, list):
            raise TypeError("no list")
    except FileNotFoundError:
        return NO_OVERRIDES, ""
    except NotADirectoryError as error:
        return NO_OVERRIDES, f"{path}: can't be read: {error.strerror}"
    except OSError as error:
        return NO_OVERRIDES, f"{path}: can't be read: {error.strerror}; {_move_aside(path)}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return NO_OVERRIDES, f"{path}: holds no overrides; {_move_aside(path)}"
    found, wrong = _read_items(items)
    if not wrong:
        return found, ""
    return found, f"{path}: {wrong} of {len(items)} overrides can't be understood; {_move_aside(path)}"


def _read_items(items: list[Any]) -> tuple[Overrides, int]:
    """The overrides among them, and how many are none."""
    found: dict[tuple[str, str, str], Override] = {}
    wrong = 0
    for item in items:
        try:
            override = read_override(item)
        except ValueError:
            wrong += 1
        else:
            found[override.place] = override
    return Overrides(tuple(found.values())), wrong


def _move_aside(path: Path) -> str:
    """Where it is now, in words."""
    try:
        aside = next(
            (name for n in range(1, _ASIDE) if not (name := path.with_name(f"{path.name}.bad-{n}")).exists()),
            path.with_name(f"{path.name}.bad-{_ASIDE}"),
        )
        path.rename(aside)
    except OSError as error:
        return f"it can't be moved aside either: {error.strerror}"
    return f"moved to {aside}"


def _is_there(path: Path) -> bool:
    """False too where we may not look."""
    try:
        return path.exists()
    except OSError:
        return False


def write(path: Path, overrides: Overrides) -> None:
    """Replace the file: a reader, and a start after a power failure, finds the old or the new one, whole. Who never
    gave such an order needs none. Raises OSError."""
    if not overrides.items and not _is_there(path):
        return
    text = json.dumps({"overrides": [override.document() for override in overrides.items]}, indent=1) + "\n"
    path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), MODE)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
