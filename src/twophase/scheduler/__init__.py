"""Who is in the next pass. No clock, no I/O, no tensors: counts and block numbers only."""
