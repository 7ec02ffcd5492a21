"""A machine in a running lab, with a command that enters its network namespace and control group."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabMachine
from lbdns_tools.lab.machines.control_groups import ControlGroup

#: Files that replace those in /etc inside a network namespace (ip-netns(8))
ETC: Final = Path("/etc/netns")
NAMESPACES: Final = Path("/run/netns")

# Does the same as `ip netns exec`, but mounts no fresh /sys, which would lack control groups: agents must see those of
# their host. $0 is the namespace. Every step is exec'd, so that the process ID remains the program's.
_ENTER: Final = (
    f'for file in {ETC}/"$0"/*; do'
    ' if [ -e "$file" ]; then mount --bind "$file" "/etc/${file##*/}" || exit 1; fi; done;'
    f' exec nsenter --net={NAMESPACES}/"$0" -- "$@"'
)


@dataclass(frozen=True, slots=True)
class PlacedMachine:
    """A machine in a running lab, its network namespace, and the control group that limits it."""

    machine: LabMachine
    namespace: str
    group: ControlGroup

    def command(self, *argv: str, group: ControlGroup | None = None) -> tuple[str, ...]:
        """Return a command that runs ``argv`` on the machine, in ``group`` (by default, the machine's group)."""
        own_mounts = ("unshare", "--mount", "--propagation", "slave", "--")
        return (group or self.group).command(*own_mounts, "sh", "-c", _ENTER, self.namespace, *argv)

    def resolv_conf(self, *lines: str) -> None:
        """Write the machine's resolv.conf. Programs that are started afterwards read this file, including any later
        changes."""
        folder = ETC / self.namespace
        while not folder.is_dir():
            with contextlib.suppress(FileNotFoundError):  # another lab has just removed the empty parent folder
                folder.mkdir(parents=True, exist_ok=True)
        # Written in place, because running programs have this very inode mounted
        (folder / "resolv.conf").write_text("".join(f"{line}\n" for line in lines))
