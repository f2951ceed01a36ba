"""Weighted sums of means, of which those in use have equal weights."""

from collections.abc import Mapping

from mmconv.core.types import Summary
from mmconv.stats import Column
from mmconv.stats.estimates import count_lacking, estimate_terms


def combine(columns: Mapping[str, Column], weights: Mapping[str, float]) -> Summary:
    """The weighted sum of the columns' means, by the formula of `mmconv.stats.estimates`."""
    samples = {sample for column in columns.values() for sample in column.samples}
    missing = count_lacking(columns.values())
    terms = [(column, weights[name]) for name, column in columns.items()]
    return estimate_terms(terms, len(samples) - missing.total(), missing)
