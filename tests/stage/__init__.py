"""A stage for the broker's own tests: everything real but the threads, the socket, the disk and time."""
