"""What commands are built from: options and what these open, and how results are told."""
