"""The default gateway of this host, and how long an echo from it takes."""
