"""The samples of a page's runs: read once, put as conversations, indexed, packed in blocks."""
