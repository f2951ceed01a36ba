"""BotChat: a model talks to itself from two human utterances, and a judge looks for the machine.

Source: Duan et al., BotChat (2024), and open-compass/BotChat. Nothing is exported from here: import
the modules.
"""
