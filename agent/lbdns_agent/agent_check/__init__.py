"""Answers HAProxy's agent checks with a state and a weight; the weight is this host's free capacity."""
