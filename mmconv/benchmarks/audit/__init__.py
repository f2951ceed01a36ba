"""Audits of judges without people: `mmconv judge` runs them."""

from mmconv.benchmarks.audit.benchmark import Audit

__all__ = ["Audit"]
