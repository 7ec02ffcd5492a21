"""The file that preserves joined members across restarts. It is rewritten whenever a member joins or leaves."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Final

from lbdns.config import Config
from lbdns.model.farm import Farm
from lbdns.model.joined_members import NO_JOINED_MEMBERS, JoinedMember, JoinedMembers, read_joined_member, with_joined
from lbdns.process.atomic_file import replace_file

FILE_NAME: Final = "joined.json"  # in [server] state_dir
FOLDER_MODE: Final = 0o755

log = logging.getLogger("lbdns.collector")


def joined_path(config: Config) -> Path:
    """Return the path of the file."""
    return config.server.state_dir / FILE_NAME


def read_joined(path: Path) -> JoinedMembers:
    """Return the joined members in the file.

    Members that cannot be read are dropped with a warning, since they join again with their next reports. The function
    blocks on disk I/O.
    """
    try:
        items = json.loads(path.read_bytes())["members"]
        if not isinstance(items, list):
            raise TypeError("must be a list")
    except (FileNotFoundError, NotADirectoryError):
        return NO_JOINED_MEMBERS
    except OSError as error:
        log.warning("%s: cannot read the file: %s; hosts join again with their next reports", path, error.strerror)
        return NO_JOINED_MEMBERS
    except (ValueError, TypeError, KeyError, RecursionError):
        log.warning("%s: not a valid file of joined members; hosts join again with their next reports", path)
        return NO_JOINED_MEMBERS
    found: list[JoinedMember] = []
    for item in items:
        try:
            found.append(read_joined_member(item))
        except ValueError as error:
            log.warning("%s: %s", path, error)
    return NO_JOINED_MEMBERS.changed(put=found)


def include_joined(configured: Farm, joined: JoinedMembers) -> tuple[Farm, JoinedMembers]:
    """Return two values: the farm with ``joined``, and the joined members that it contains. Members that do not fit are
    left out and logged."""
    farm, refused = with_joined(configured, joined)
    for member, why in refused:
        log.warning("%s no longer belongs to pool %s: %s", member.name, member.pool, why)
    return farm, joined.changed(removed=[member for member, _ in refused])


def write_joined(path: Path, joined: JoinedMembers) -> None:
    """Replace the file; a missing file is created only if there are members. Blocks on disk I/O. Raises OSError."""
    if not joined.items and not path.exists():
        return
    path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    document = {"members": [item.document() for item in joined.items]}
    replace_file(path, json.dumps(document, indent=1) + "\n", sync=True)


class JoinedFile:
    """Writes the joined members to the file whenever they have changed."""

    def __init__(self) -> None:
        self._written: tuple[Path, JoinedMembers] | None = None
        self._failure = ""  # the last failure that was logged; empty after a success

    async def save(self, config: Config, joined: JoinedMembers) -> None:
        """Write the members in a thread, unless they are already in the file. A failure is logged.

        After a failure, the next call tries again.
        """
        wanted = joined_path(config), joined
        if self._written == wanted:
            return
        try:
            await asyncio.to_thread(write_joined, *wanted)
        except OSError as error:
            failure = f"{wanted[0]}: cannot write the file: {error.strerror}; after a restart, hosts must join again"
            if failure != self._failure:
                log.warning(failure)
            self._failure = failure
        else:
            self._written, self._failure = wanted, ""
