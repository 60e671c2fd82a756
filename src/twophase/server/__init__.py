"""The OpenAI-compatible front of the engine, and its counters."""
