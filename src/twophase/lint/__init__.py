"""What benchmark results can't be: each measured row beside the floor of its model and hardware."""
