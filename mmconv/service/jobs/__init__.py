"""The queue's jobs, be they runs or dialogues: who carries them out, who waits for them."""
