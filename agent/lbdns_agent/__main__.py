"""``python -m lbdns_agent`` runs the ``lbdns-agent`` command."""

import sys

from lbdns_agent.cli import main

sys.exit(main())
