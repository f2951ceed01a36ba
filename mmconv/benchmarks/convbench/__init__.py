"""ConvBench (Liu et al., 2024): perception, reasoning and creation about one image."""
