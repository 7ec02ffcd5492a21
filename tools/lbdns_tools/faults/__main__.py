"""``python -m lbdns_tools.faults``: injects faults into a running lbdns."""

from __future__ import annotations

from lbdns_tools.faults.faults_command import main

if __name__ == "__main__":
    main()
