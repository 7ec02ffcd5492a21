"""Records the kernel's disk counters and the agent's metrics in CSV files, and plots these files."""
