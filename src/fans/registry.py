"""Families whose members register themselves by name."""

from typing import Any, ClassVar


class Registered:
    """A family whose members register themselves by `name`: subclass it and set `registry = {}` to found one."""

    registry: ClassVar[dict[str, type["Registered"]]]
    name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name = cls.__dict__.get("name")
        if name is None:
            return
        if name in cls.registry:
            raise TypeError(f"Expected a new name for {cls.__qualname__}, got {name!r}, taken by {cls.registry[name]}")
        cls.registry[name] = cls
