"""Injects faults into a running lbdns under a steady DNS load, and reports what each fault did to the answers."""
