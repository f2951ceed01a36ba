"""Parsers: a judge's reply read as a verdict, or refused. Pure; a verdict is never guessed.

A reply that holds no verdict, or two that differ, raises `Unparsed`, and the plan's
rescues ask again. Markdown around a verdict is tolerated, since judges decorate their last lines.
There is a module per benchmark, for the format that its judges are asked for; those for a closing
line of plain words are ConvBench's, and exported.
"""

from judges.parsers.convbench import choice, extracted_choice, extracted_rating, rating

__all__ = ["choice", "extracted_choice", "extracted_rating", "rating"]
