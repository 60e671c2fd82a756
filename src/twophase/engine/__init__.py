"""The scheduler on a real model: weights, executor, tokenizer."""
