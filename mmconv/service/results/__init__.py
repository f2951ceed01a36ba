"""What runs found, as clients may see it: scores, samples, reports, comparisons."""
