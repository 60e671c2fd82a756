"""What arrives: arrival processes, lengths, recorded traces, and what prompts have in common."""
