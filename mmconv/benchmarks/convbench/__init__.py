"""ConvBench: perception, reasoning and creation about one image, in three turns.

Liu et al., 2024 (arXiv 2403.20194). Nothing is exported from here: import the modules.
"""
