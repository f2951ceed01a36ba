"""The transport: connections, the gate before all routes, bodies, queries, limits of requests."""
