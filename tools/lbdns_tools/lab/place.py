"""One machine of a running lab as others use it: how a command is started inside its namespace and its group."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_tools.lab.addresses import Machine
from lbdns_tools.lab.groups import Group

#: What a namespace has instead of the files of /etc (ip-netns(8))
ETC: Final = Path("/etc/netns")
NAMESPACES: Final = Path("/run/netns")

# What `ip netns exec` does, less its fresh /sys: in that no control group is mounted, and an agent has to see its own
# host's. $0 is the namespace. The shell and all that follow it are one process, so that its number is the program's.
_ENTER: Final = (
    f'for file in {ETC}/"$0"/*; do'
    ' if [ -e "$file" ]; then mount --bind "$file" "/etc/${file##*/}" || exit 1; fi; done;'
    f' exec nsenter --net={NAMESPACES}/"$0" -- "$@"'
)


@dataclass(frozen=True, slots=True)
class Place:
    """A machine, the network namespace it is in, and the control group that it and what it may use is limited by."""

    machine: Machine
    namespace: str
    group: Group

    def command(self, *argv: str, group: Group | None = None) -> tuple[str, ...]:
        """A command that runs ``argv`` on this machine, in ``group`` or the machine's own; without: its beginning."""
        own_mounts = ("unshare", "--mount", "--propagation", "slave", "--")
        return (group or self.group).command(*own_mounts, "sh", "-c", _ENTER, self.namespace, *argv)

    def resolv_conf(self, *lines: str) -> None:
        """Give the machine a resolv.conf of its own, which programs started from then on see, and later changes."""
        folder = ETC / self.namespace
        while not folder.is_dir():
            with contextlib.suppress(FileNotFoundError):  # another lab has just removed the empty folder above
                folder.mkdir(parents=True, exist_ok=True)
        # Written in place: running programs have this very file mounted
        (folder / "resolv.conf").write_text("".join(f"{line}\n" for line in lines))
