"""The history: records reports, answers and events in a SQLite file. A separate thread writes the file."""
