import pytest

from twophase import units


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (units.significant(0), "0"),
        (units.significant(1234.5), "1,230"),
        (units.significant(99.96), "100"),
        (units.significant(9.996), "10.0"),
        (units.significant(0.012345), "0.0123"),
        (units.duration(0.0000123), "12.3 µs"),
        (units.duration(0.031), "31.0 ms"),
        (units.duration(2.284), "2.28 s"),
        (units.duration(347), "5.78 min"),
        (units.duration(0), "0 s"),
        (units.milliseconds(0.00987), "9.87"),
        (units.milliseconds(0.0452), "45.2"),
        (units.milliseconds(1.2344), "1,234"),
        (units.milliseconds(0.0004567), "0.457"),
        (units.quantity(35e9, "B/s"), "35.0 GB/s"),
        (units.quantity(18432, "B"), "18.4 kB"),
        (units.quantity(989e12, "FLOP/s"), "989 TFLOP/s"),
        (units.quantity(5.71, "FLOP/byte"), "5.71 FLOP/byte"),
        (units.percent(0.964), "96%"),
        (units.percent(0.9964), "99.6%"),
        (units.percent(0.004), "0.4%"),
        (units.percent(1.0), "100%"),
        (units.percent(0), "0%"),
        (units.times(1.873), "1.87×"),
        (units.times(37.4), "37×"),
        (units.count(30000), "30,000"),
        (units.plural(1, "request"), "1 request"),
        (units.plural(0, "request"), "0 requests"),
        (units.plural(2500, "pass"), "2,500 passes"),
    ],
)
def test_shown(shown: str, expected: str) -> None:
    assert shown == expected
