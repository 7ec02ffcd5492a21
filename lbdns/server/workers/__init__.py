"""Answers queries in several processes: the worker pool, its workers, and their messages."""
