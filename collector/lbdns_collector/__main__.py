"""python -m lbdns_collector"""

from lbdns_collector.cli import main

if __name__ == "__main__":
    main()
