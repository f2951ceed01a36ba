"""One folder per benchmark: its data, its prompts' slots, its scores and tables.

Their modules have the same names in all of them: `options`; `data`; what is asked, in `chains` (the
candidate) and `grading` (the judge); `scoring`, `quantities` and `tables`; what `compared` runs and
a `leaderboard` show; `rescore` for what the authors have published; `judgements` for what clients
send. What these share is in `shared` and `data_files`; which samples a run takes, in `choosing`.
`base` is for a benchmark of one's own, and `registry` names those that are shipped.

Benchmarks never import each other. Names become benchmarks in `mmconv.engine.setup`, lazily.
"""
