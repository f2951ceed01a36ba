"""CMT-Eval (Tian et al.): Chinese dialogues that follow a user's changing needs."""
