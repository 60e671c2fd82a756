"""Where an LLM's time goes, prefill or decode, and how far it is from the floor the hardware allows."""

__version__ = "0.1.0"
