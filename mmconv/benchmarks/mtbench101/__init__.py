"""MT-Bench-101: thirteen tasks of multi-turn dialogue, from remembering to asking back.

Bai et al., 2024 (arXiv 2402.14762). Nothing is exported from here: import the modules.
"""
