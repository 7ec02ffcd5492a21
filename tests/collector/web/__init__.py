"""Tests of the collector's web interface."""
