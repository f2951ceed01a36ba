"""CMT-Eval: Chinese dialogues of 5 to 11 turns that follow a user's changing needs.

Tian et al., CMT-Eval (paper and authors' repository). Nothing is exported from here: import the
modules.
"""
