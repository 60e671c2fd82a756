"""Its place alone matters: pytest puts this folder on the path, so that tests can import machine.py."""
