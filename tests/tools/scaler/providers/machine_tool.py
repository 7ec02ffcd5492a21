"""A program that manages made-up machines, as a user's scripts do: ``machine_tool.py FOLDER COMMAND [ARGUMENTS]``.

The folder contains a JSON file for each machine. The file ``quota`` limits their number.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main(folder: Path, command: str, *arguments: str) -> int:
    if command == "list":
        for path in sorted(folder.glob("*.json")):
            values = json.loads(path.read_text())
            if values.pop("farm") == arguments[0]:
                values.pop("user_data")
                print(json.dumps(values))
        return 0
    farm, name = arguments[:2]
    path = folder / f"{name}.json"
    if command == "create":
        if len(list(folder.glob("*.json"))) >= int((folder / "quota").read_text()):
            print(f"no machine is left for {name}", file=sys.stderr)
            return 3
        text = Path(arguments[2]).read_text()
        addresses = ["192.0.2.1", "2001:db8::1"]
        values = {"name": name, "farm": farm, "addresses": addresses, "user_data": text}
        path.write_text(json.dumps({**values, "status": "running", "created": time.time()}))
        return 0
    if not path.exists():
        print(f"there is no machine {name}", file=sys.stderr)
        return 1
    if command == "delete":
        path.unlink()
        return 0
    values = json.loads(path.read_text())
    running = command == "start"
    path.write_text(
        json.dumps({**values, "status": "running" if running else "stopped", "created": time.time() if running else 0})
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
