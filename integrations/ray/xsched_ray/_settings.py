"""What a `runtime_env` says under `xsched`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.util.placement_group import PlacementGroup

#: Classes, the most urgent first.
CLASSES = ("interactive", "normal", "batch")
#: Characters of a gang's name at most.
_GANG_MAX = 64
_KEYS = ("class", "share", "gang", "streams")


class SettingsError(ValueError):
    """Settings that there cannot be, with what to write instead."""


@dataclass(frozen=True)
class Settings:
    """How a worker is to be scheduled."""

    name: str
    share: int | None = None
    gang: str | None = None
    streams: bool = False

    @classmethod
    def parse(cls, value: object) -> Settings:
        """Returns the settings, as a `runtime_env` has them.

        Raises:
            SettingsError: If one is wrong, or there is another.
        """
        if not isinstance(value, dict):
            raise SettingsError(f'xsched is {value!r}; write {{"class": "batch"}}, for example')
        unknown = [key for key in value if key not in _KEYS]
        if unknown:
            raise SettingsError(f"xsched has no key {unknown[0]!r}; there are {', '.join(_KEYS)}")
        name, share, gang = value.get("class"), value.get("share"), value.get("gang")
        streams = value.get("streams", False)
        if name not in CLASSES:
            wrong = "no class" if name is None else f"class {name!r}"
            raise SettingsError(f"xsched has {wrong}; say interactive, normal or batch")
        # A truth value is an integer in Python.
        if share is not None and (type(share) is not int or not 0 <= share <= 100):
            raise SettingsError(f"xsched has share {share!r}; say percent of a GPU, 0 to 100")
        if gang is not None and not _is_name(gang):
            raise SettingsError(
                f"xsched has gang {gang!r}; say a name of 1 to {_GANG_MAX} printable characters"
            )
        if not isinstance(streams, bool):
            raise SettingsError(f"xsched has streams {streams!r}; say True or False")
        return cls(name, share, gang, streams)

    def words(self) -> list[str]:
        """Returns the options of `xsched env`."""
        words = ["--class", self.name]
        if self.share is not None:
            words += ["--share", str(self.share)]
        if self.gang is not None:
            words += ["--gang", self.gang]
        return words + ["--streams"] * self.streams


def _is_name(gang: object) -> bool:
    return isinstance(gang, str) and 0 < len(gang) <= _GANG_MAX and gang.isprintable()


def scheduling(
    name: str,
    share: int | None = None,
    gang: str | PlacementGroup | None = None,
    streams: bool = False,
) -> dict[str, dict[str, Any]]:
    """Returns the part of a `runtime_env` for a class, checked before Ray starts a worker.

    A placement group as `gang` makes its workers one gang: on each node they are held and released
    together. Ray does not tell a plugin in which placement group a worker will be, so it has to be
    named here.

    >>> scheduling("batch", share=30)
    {'xsched': {'class': 'batch', 'share': 30}}

    Raises:
        SettingsError: If one is wrong.
    """
    if gang is not None and not isinstance(gang, str):
        gang = f"ray-{gang.id.hex()}"
    value: dict[str, Any] = {"class": name}
    if share is not None:
        value["share"] = share
    if gang is not None:
        value["gang"] = gang
    if streams:
        value["streams"] = True
    Settings.parse(value)
    return {"xsched": value}
