"""Answering in several processes: the crew, the workers it has, and what they tell each other."""
