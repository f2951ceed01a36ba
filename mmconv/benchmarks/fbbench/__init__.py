"""FB-Bench: how a model answers a user's feedback on an answer that stands already.

Source: the FB-Bench paper (2024) and PKU-Baichuan-MLSystemLab/FB-Bench. Nothing is exported from
here: import the modules.
"""
