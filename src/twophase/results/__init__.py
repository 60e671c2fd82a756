"""Benchmark results as other tools write them, read into one kind of point."""

from twophase.results.consistency import inconsistencies
from twophase.results.point import Point
from twophase.results.reading import read_points

__all__ = ["Point", "inconsistencies", "read_points"]
