"""Sockets that DNS is answered on: opened, dealt out, read, and left, and what protects them."""
