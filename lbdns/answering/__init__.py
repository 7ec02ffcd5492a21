"""Answering queries: bytes in, bytes out. No event loop, socket, clock, randomness or file."""
