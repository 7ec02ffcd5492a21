"""The history records reports, answers and events in a SQLite file, which is written by a separate thread."""
