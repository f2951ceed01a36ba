"""What commands share: options, run folders, progress, costs, and the printing of results."""
