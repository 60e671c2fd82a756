"""The scheduler on a clock made of arithmetic."""
