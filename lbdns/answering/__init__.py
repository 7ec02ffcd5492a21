"""Answering: bytes in, bytes out. Pure: no asyncio, socket, clock, chance or files.

query bytes -> respond -> [table: compiled entry | query -> lookup -> message] -> response bytes
"""
