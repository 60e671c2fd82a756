"""Whether a model fits on its devices, and how much KV cache is left."""
