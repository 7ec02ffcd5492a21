"""Takes screenshots of the live page in every state, from a real server with simulated agents."""
