"""Serves the figures of the last sample as a text page over HTTP (``--serve``)."""
