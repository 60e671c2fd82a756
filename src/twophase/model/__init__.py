"""What the network is: its description, the readers that make one, and the counts that follow from it."""
