"""The base of all benchmarks, shipped ones and those of users."""

from mmconv.benchmarks.base.benchmark import Benchmark
from mmconv.benchmarks.base.results import Results, reduce_scores
from mmconv.benchmarks.base.sample import Fields, ImageFile, ImageFiles, Sample
from mmconv.benchmarks.options import ChatOptions, Condition, ImageOptions, Options

__all__ = [
    "Benchmark",
    "ChatOptions",
    "Condition",
    "Fields",
    "ImageFile",
    "ImageFiles",
    "ImageOptions",
    "Options",
    "Results",
    "Sample",
    "reduce_scores",
]
