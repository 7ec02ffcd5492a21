"""Tests of the XDP program and its loader. Most run the program on single packets, without a network."""
