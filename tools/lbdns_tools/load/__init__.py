"""The load generator: clients that resolve, connect, ask and are counted; never a failure dropped."""
