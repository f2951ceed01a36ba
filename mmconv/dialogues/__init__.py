"""Dialogues of a client's own: asked under several conditions, judged, and compared between them.

Pure: a request becomes plans, and their outcomes a result. Nothing is asked and no HTTP is known
here; images come as values that are known already. Nothing is exported: import the modules.
"""
