"""The DNS server's only asyncio: sockets, timers, signals, and who calls whom. Decisions are made elsewhere."""
