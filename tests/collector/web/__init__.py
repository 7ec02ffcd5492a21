"""Tests of the collector's HTTP side."""
