"""One module for each source of metrics: how to read the source, and the metrics that follow from it."""
