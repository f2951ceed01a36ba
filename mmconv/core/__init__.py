"""What everything else is made of: types, errors, keys, the call graph, turns, configuration."""
