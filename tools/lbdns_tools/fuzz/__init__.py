"""Coverage-guided fuzzing of what reads bytes of strangers: ``python -m lbdns_tools.fuzz TARGET --seconds N``.

A target is a module: SECONDS and MAX_LENGTH bound one input, WORDS are what its inputs are made of, ``seeds()`` makes
the first inputs by the project's own encoders and dnspython, ``mutate`` changes an input where its structure matters,
and ``check`` raises if what the input does is not as it should be. docs/fuzzing.md says how to run it.
"""
