"""The models and judges of one process: loaded once, asked, and what their failures mean."""
