"""From an engine's own counters to what each phase did in production."""
