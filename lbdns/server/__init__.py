"""The DNS server around the answering code: its sockets, timers, signals, processes and control commands."""
