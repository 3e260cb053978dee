"""Declares arguments: their allowed values, and when they have an effect.

A class lists its arguments. The declaration is used to check them when an instance is
built, and for `get_config`. Names and defaults are in the signature of `__init__` or in
the fields of a dataclass, and nowhere else:

    @dataclasses.dataclass(frozen=True)
    class Triangle(arguments.Declared):
        ARGUMENTS = {"width": Argument(checks.positive, annealable=True)}

        width: Annealable = 1.0
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from tfr_ext.core import checks, which_keras
from tfr_ext.core.annealed import Annealable, Annealed


class Argument(NamedTuple):
    """The values that an argument may have, and when it has an effect.

    Attributes:
        check: takes the name and a value, and returns the value as a configuration
            stores it, or raises a ValueError that says what is allowed.
        optional: whether None is allowed, for no value.
        annealable: whether it may be a schedule.
        needs: the condition of its effect, in words, if there is one.
        used: takes all checked arguments, and returns whether it has an effect.
    """

    check: Callable[[str, Any], Any]
    optional: bool = False
    annealable: bool = False
    needs: str = ""
    used: Callable[[Mapping[str, Any]], bool] = lambda values: True

    def checked(self, name: str, value: Any) -> Any:
        """Returns a value as it is stored; `Annealed` if the argument is annealable.

        Raises:
            ValueError: If the value is not allowed.
            TypeError: If it is a schedule of the other Keras.
        """
        if value is None and self.optional:
            return None
        if self.annealable:
            which_keras.check_value(name, value)
            return Annealed(name, value, self.check)
        return self.check(name, value)


class Sharpness(NamedTuple):
    """How to bring a relaxation closer to the metric.

    Attributes:
        argument: the argument of the loss.
        sharper: 'higher' or 'lower', the direction in which to change it.
    """

    argument: str
    sharper: str

    @property
    def smoother(self) -> str:
        """The direction that takes the relaxation further from the metric."""
        return "lower" if self.sharper == "higher" else "higher"


def check_all(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the arguments that a class declares, and returns them.

    Args:
        cls: a class with `ARGUMENTS`; those of its bases are added to its own.
        values: the value of each argument.

    Raises:
        ValueError: If one is out of range, or differs from its default where it has no
            effect.
    """
    declared = _declared(cls)
    kept = {name: declared[name].checked(name, values[name]) for name in declared}
    defaults = parameters(cls)
    for name, argument in declared.items():
        if argument.needs:
            checks.has_effect(
                name,
                kept[name],
                defaults[name].default,
                argument.used(kept),
                argument.needs,
            )
    return kept


def parameters(cls: type, base: type = object) -> dict[str, inspect.Parameter]:
    """Returns the named parameters of the constructors of a class and its bases.

    Args:
        cls: the class.
        base: the base class at which to stop.
    """
    found: dict[str, inspect.Parameter] = {}
    for each in cls.__mro__[: cls.__mro__.index(base)]:
        if "__init__" in vars(each):
            own = inspect.signature(vars(each)["__init__"]).parameters
            named = {k: p for k, p in own.items() if p.kind is p.POSITIONAL_OR_KEYWORD}
            found = {**named, **found}
    return found


def config_of(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments as a configuration stores them."""
    return {
        name: value.config if isinstance(value, Annealed) else value
        for name, value in kept.items()
    }


def annealed_of(kept: Mapping[str, Any]) -> dict[str, Annealed]:
    """Returns the arguments that may be schedules."""
    return {name: value for name, value in kept.items() if isinstance(value, Annealed)}


@dataclasses.dataclass(frozen=True)
class Declared:
    """Base of dataclasses whose fields are arguments.

    Fields that are declared in `ARGUMENTS` are checked when an instance is built;
    others are not.
    """

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {}

    def __post_init__(self) -> None:
        """Checks the arguments."""
        kept = check_all(type(self), self._fields())
        annealed = annealed_of(kept)
        for name, value in kept.items():
            if name not in annealed:
                object.__setattr__(self, name, value)
        object.__setattr__(self, "_annealed", annealed)

    @classmethod
    def takes(cls, argument: str) -> bool:
        """Returns whether the class has an argument of that name."""
        return argument in {field.name for field in dataclasses.fields(cls)}

    @property
    def annealed(self) -> dict[str, Annealed]:
        """The arguments that may be schedules."""
        return self.__dict__["_annealed"]

    def now(self, argument: str) -> float | tf.Tensor:
        """Returns the current value of an argument that may be a schedule."""
        return self.annealed[argument].value

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this instance."""
        return {**self._fields(), **config_of(self.annealed)}

    def _fields(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}


def _declared(cls: type) -> dict[str, Argument]:
    found: dict[str, Argument] = {}
    for base in reversed(cls.__mro__):
        found.update(vars(base).get("ARGUMENTS", {}))
    return found


__all__ = [
    "Annealable",
    "Annealed",
    "Argument",
    "Declared",
    "Sharpness",
    "annealed_of",
    "check_all",
    "config_of",
    "parameters",
]
