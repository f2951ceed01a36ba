"""Parsers: a judge's reply read as a verdict, or refused. Pure; a verdict is never guessed.

A reply without a verdict, or with two that differ, raises `Unparsed`, and the plan's fallbacks
follow. Markdown around a verdict is tolerated, as judges decorate their last lines. There is a
module per benchmark, for the format that its prompts ask for; ConvBench's parsers of a closing line
of plain words are exported.
"""

from judges.parsers.convbench import choice, extracted_choice, extracted_rating, rating

__all__ = ["choice", "extracted_choice", "extracted_rating", "rating"]
