"""Exports and replays with the real packages of other tools: `make interop`."""
