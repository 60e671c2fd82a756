"""The keys of a model's config, checked as they are asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twophase.errors import InputError

Config = Mapping[str, Any]
LARGEST = 2**31 - 1  # of any count; beyond it a file is damaged


@dataclass(frozen=True, slots=True)
class Keys:
    """A config's values, checked, with its class's defaults behind them."""

    config: Config
    defaults: Config
    where: str
    names: Mapping[str, str] = field(default_factory=dict)  # what this family's files call a key instead

    def own(self, key: str) -> str:
        own = self.names.get(key, key)
        return key if key in self.config and own not in self.config else own

    def get(self, key: str, otherwise: Any = None) -> Any:
        """The value; null counts as absent."""
        value = self.config.get(self.own(key))
        if value is None:
            value = self._default(key)
        return otherwise if value is None else value

    def given(self, key: str) -> Any:
        """The value, None where the file says null: the default stands in only where the key is absent."""
        return self.config.get(self.own(key), self._default(key))

    def _default(self, key: str) -> Any:
        return self.defaults.get(self.own(key), self.defaults.get(key))

    def count(self, key: str, otherwise: int | None = None, least: int = 1, most: int = LARGEST) -> int:
        value = self.get(key, otherwise)
        if value is None:
            raise InputError(f"{self.where} has no {self.own(key)}")
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InputError(
                f"{self.where}: {self.own(key)} is {value!r:.40}; "
                f"it must be a whole number of at least {least}"
                + (f", at most {most}" if isinstance(value, int) and value > most else "")
            )
        return value

    def number(self, key: str, otherwise: float | None = None) -> float:
        value = self.get(key, otherwise)
        if value is None:
            raise InputError(f"{self.where} has no {self.own(key)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
            raise InputError(
                f"{self.where}: {self.own(key)} is {value!r:.40}; it must be a number above zero"
            )
        return float(value)

    def switch(self, key: str) -> bool:
        value = self.get(key, False)
        if not isinstance(value, bool):
            raise InputError(f"{self.where}: {self.own(key)} is {value!r:.40}; it must be true or false")
        return value

    def inner(self, key: str) -> "Keys":
        """The object that stands under a key; empty where there is none."""
        value = self.get(key, {})
        if not isinstance(value, dict):
            raise InputError(f"{self.where}: {self.own(key)} is {value!r:.40}; it must be an object")
        return Keys(value, {}, f"{self.where}, {self.own(key)}")
