"""Tests of the DNS server around the answering code."""
