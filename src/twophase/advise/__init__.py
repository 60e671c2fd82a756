"""Verdicts and levers, from records and arithmetic."""
