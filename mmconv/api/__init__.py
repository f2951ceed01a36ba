"""What the service and its client exchange, as values."""
