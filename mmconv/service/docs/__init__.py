"""The API's own document: `/openapi.json` with words and examples, and `/docs`, its page."""
