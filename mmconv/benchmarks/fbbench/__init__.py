"""FB-Bench; nothing is exported from here: import the modules."""
