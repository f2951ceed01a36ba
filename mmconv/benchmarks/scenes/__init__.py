"""Scenes: drawn images with exact truth, on a ladder of levels; no data and no judge."""

from mmconv.benchmarks.scenes.benchmark import Scenes

__all__ = ["Scenes"]
