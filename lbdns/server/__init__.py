"""The DNS server around the answering code: sockets, timers, signals, processes, control commands."""
