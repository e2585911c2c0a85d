"""What a `runtime_env` may say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from xsched_ray import SettingsError, scheduling
from xsched_ray._settings import Settings


def test_settings_become_options_of_the_command() -> None:
    assert Settings.parse({"class": "batch"}).words() == ["--class", "batch"]
    everything = {"class": "interactive", "share": 30, "gang": "a b", "streams": True}
    words = ["--class", "interactive", "--share", "30", "--gang", "a b", "--streams"]
    assert Settings.parse(everything).words() == words


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "write"),
        ("batch", "write"),
        ({}, "no class; say interactive, normal or batch"),
        ({"class": "lots"}, "class 'lots'; say interactive, normal or batch"),
        ({"class": ["batch"]}, "say interactive"),
        ({"class": "batch", "shares": 1}, "no key 'shares'; there are class, share"),
        ({"class": "batch", "share": 101}, "share 101"),
        ({"class": "batch", "share": -1}, "share -1"),
        ({"class": "batch", "share": 0.5}, "share 0.5"),
        ({"class": "batch", "share": True}, "share True"),
        ({"class": "batch", "gang": ""}, "gang ''"),
        ({"class": "batch", "gang": "a" * 65}, "1 to 64"),
        ({"class": "batch", "gang": "a\nb"}, "printable"),
        ({"class": "batch", "streams": "yes"}, "streams 'yes'"),
    ],
)
def test_wrong_settings_are_refused_with_what_to_say(value: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Settings.parse(value)


def test_a_driver_is_told_before_a_worker_starts() -> None:
    assert scheduling("batch", share=30) == {"xsched": {"class": "batch", "share": 30}}
    assert scheduling("batch", streams=True) == {"xsched": {"class": "batch", "streams": True}}
    with pytest.raises(SettingsError):
        scheduling("lots")


def test_a_placement_group_names_a_gang() -> None:
    # As long as Ray's numbers of placement groups are.
    group: Any = SimpleNamespace(id=SimpleNamespace(hex=lambda: "0f" * 18))
    made = scheduling("normal", gang=group)
    assert made == {"xsched": {"class": "normal", "gang": "ray-" + "0f" * 18}}
    assert scheduling("normal", gang="ranks")["xsched"]["gang"] == "ranks"
