"""Supports secondary name servers: sends NOTIFY messages, and advances the SOA serials of zones."""
