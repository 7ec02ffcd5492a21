"""Tests of the DNS server's shell."""
