"""BotChat (Duan et al., 2024): a model talks to itself, and a judge looks for the machine."""
