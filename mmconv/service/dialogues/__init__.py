"""`/v1/dialogues`: a client's own dialogue, answered at once or carried out as a job."""
