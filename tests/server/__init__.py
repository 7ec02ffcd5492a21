"""Tests of the DNS server, except for the answering code."""
