"""The meter: times any OpenAI-compatible server, and says how wrong it may be."""
