"""Links between replicas by name, one direction, all lanes of a port together."""

import re

from twophase.errors import InputError, nearest
from twophase.hardware.accelerator import Accelerator, Link

GIGABYTE = 1e9
NAMED = {  # bytes/s by their standards; seconds of latency: assumed
    "pcie4": Link(32e9, 2.5e-6),
    "pcie5": Link(64e9, 2.5e-6),
    "hdr": Link(25e9, 2e-6),
    "ndr": Link(50e9, 2e-6),
    "xdr": Link(100e9, 2e-6),
    "100gbe": Link(12.5e9, 5e-6),
    "200gbe": Link(25e9, 5e-6),
    "400gbe": Link(50e9, 5e-6),
}


def link_of(text: str, accelerator: Accelerator) -> Link:
    """GB/s of a replica, a name, or intra or inter: the accelerator's own in a node, and between nodes."""
    own = {"intra": accelerator.intra, "inter": accelerator.inter, **NAMED}
    if text.lower() in own:
        return own[text.lower()]
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*(?:GBps|GB/s)?", text.strip(), re.IGNORECASE)
    if found is None or float(found[1]) <= 0:
        raise InputError(
            f"--link {text}: give GB/s of a replica, like 50, or one of {', '.join(own)}{nearest(text, own)}"
        )
    return Link(float(found[1]) * GIGABYTE, accelerator.inter.latency_s)
