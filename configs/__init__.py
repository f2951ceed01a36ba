"""The model and run files that mmconv ships, as package data; no code lives here."""
