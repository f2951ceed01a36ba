"""Tables as people and programs read them: text, CSV, JSON, Markdown and LaTeX.

Text, Markdown and LaTeX are for readers: numbers have the table's digits, rounded half up (away
from zero) from the shortest decimal that names the float, so 0.125 becomes 0.13. CSV and JSON are
for programs: numbers stand there in full. A value that is not there is an en dash (empty in CSV,
null in JSON) with the count and reasons of what is missing beside it, never 0 or NaN; a cell that
the row does not have is blank. Nothing is computed here but the rounding.
"""
