"""The history records reports, answers and events in a SQLite file; a separate thread writes the file."""
