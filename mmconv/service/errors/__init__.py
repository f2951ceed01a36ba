"""What clients are told when a request cannot be served, and what they are not told."""
