"""The compiled kernels. Imports nothing of ours."""
