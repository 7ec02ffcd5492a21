"""Runs the answering code as a DNS server, with its sockets, timers, signals, processes and control commands."""
