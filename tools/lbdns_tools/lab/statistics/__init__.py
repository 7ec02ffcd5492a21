"""Statistics of a study's outcomes: ratios, scatter, demands, queueing theory."""
