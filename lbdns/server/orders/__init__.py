"""What a running server is told to do: the control socket, and handing over to the next process."""
