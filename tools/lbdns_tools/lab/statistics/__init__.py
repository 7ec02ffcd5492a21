"""Statistics of a study's outcomes: ratios, variation, demands, queueing theory."""
