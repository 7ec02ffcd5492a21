"""Tests of the DNS server, apart from those of the code that answers queries."""
