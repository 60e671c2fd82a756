"""Its place alone matters: pytest puts this folder on the path, so every room's tests can import machine.py."""
