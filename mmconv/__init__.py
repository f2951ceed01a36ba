"""mmconv evaluates vision-language models and text LLMs in multi-turn conversation.

Importing this package does nothing: it loads no model library, reads no environment variable,
configures no logging and seeds no generator. `mmconv.engine.setup` is where names become objects.
"""

__version__ = "0.1.0"
