"""What it runs on: accelerators, their catalogue, and the probe of this machine."""
