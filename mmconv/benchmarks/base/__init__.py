"""The base of a benchmark over one file of records; one of one's own derives from it.

`FileBenchmark` does everything but prompts and what they mean, and tells in its docstrings what a
class must and may define. What such a class raises, or wrongly returns, is told with the sample and
its own lines.
"""

from mmconv.benchmarks.base.file_benchmark import FileBenchmark, FileOptions, ImageOptions
from mmconv.benchmarks.base.samples import Fields
from mmconv.benchmarks.shared.scoring import Calls, Outcomes, Scores

__all__ = ["Calls", "Fields", "FileBenchmark", "FileOptions", "ImageOptions", "Outcomes", "Scores"]
