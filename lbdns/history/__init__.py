"""The history: reports, answers and events in a SQLite file, written by a thread of its own."""
