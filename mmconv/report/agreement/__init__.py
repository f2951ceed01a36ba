"""How far a judge agrees with people: from files of ratings to tables.

Ratings are read, those of one unit are matched into a panel, and what `mmconv.stats` measures of it
becomes a table. Nothing is exported: import the modules.
"""
