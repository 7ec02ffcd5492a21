"""The history: records reports, answers and events in a SQLite file, which a separate thread writes."""
