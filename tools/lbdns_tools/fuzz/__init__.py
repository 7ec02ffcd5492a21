"""Coverage-guided fuzzing of the code that reads untrusted bytes: ``python -m lbdns_tools.fuzz TARGET --seconds N``.

Each target is a module that provides the attributes and functions of ``FuzzTarget``. docs/tasks/fuzz.md explains how to
run a search.
"""
