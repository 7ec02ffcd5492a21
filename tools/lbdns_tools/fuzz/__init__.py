"""Coverage-guided fuzzing of the code that reads untrusted bytes: ``python -m lbdns_tools.fuzz TARGET --seconds N``.

Each target is a module with the members of ``FuzzTarget``. docs/tasks/fuzz.md says how to run a search.
"""
