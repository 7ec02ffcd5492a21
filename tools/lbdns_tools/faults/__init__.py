"""Injects faults into a running lbdns under a steady DNS load, and reports the effect of each fault on the answers."""
