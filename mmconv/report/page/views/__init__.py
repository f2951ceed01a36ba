"""What a page says of the runs of each benchmark: sections with sentences, plots and tables."""
