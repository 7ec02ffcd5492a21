"""The DNS server, except for the answering code: sockets, timers, signals, processes and control commands."""
