"""The entry point of ``python -m lbdns_tools.scaler``, which runs ``lbdns-scaler``."""

from lbdns_tools.scaler.scaler_command import main

if __name__ == "__main__":
    main()
