"""Awkward but legal, and broken, replies with known truth, to hold any meter against: this one or another."""
