"""`/v1/runs`: runs of benchmarks, from the request to the end. `results` serves what they found."""
