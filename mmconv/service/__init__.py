"""The served API: the zoo, the judges and the benchmarks over HTTP, behind thin routes.

`command` is `mmconv serve`, `server` uvicorn around the application that `app` puts together;
`state` is what all requests share. `chat`, `images`, `dialogues`, `judgements`, `runs`, `results`,
`catalogue`, `health`, `docs` and `web` have the routes; `http`, `errors`, `models` and `jobs` are
what these stand on. Importing this package loads no web library and no model library.
"""
