"""The entry point of ``python -m lbdns_tools.lab``, which runs ``lbdns-lab``."""

from lbdns_tools.lab.lab_command import main

if __name__ == "__main__":
    main()
