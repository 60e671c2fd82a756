"""The model and accelerator that the user says serve: apart from the arithmetic, which needs NumPy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twophase.cost.deployment import Deployment
    from twophase.hardware.accelerator import Accelerator


@dataclass(frozen=True, slots=True)
class Prior:
    own: "Deployment"
    accelerator: "Accelerator"
