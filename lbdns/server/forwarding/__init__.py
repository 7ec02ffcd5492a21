"""Asking upstreams for those who may."""
