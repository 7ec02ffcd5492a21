"""What was: reports, answers and events in a SQLite file, written by a thread of its own and read by whoever asks."""
