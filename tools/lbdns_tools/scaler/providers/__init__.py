"""Providers: where servers come from, such as local processes, commands or a cloud."""
