"""Readers of published judgements, one module for each benchmark: from files to replies."""
