"""HTTP for all routes: the gate before them, requests, documented responses, tracing."""
