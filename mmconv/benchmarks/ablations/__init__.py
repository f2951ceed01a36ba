"""Ablations of three progressive turns: what perfect earlier turns change, and what fails why."""
