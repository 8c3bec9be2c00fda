"""Settings of catalogue rows: what they take, what they say of themselves, and their words."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from maxk_lab.errors import LabError
from maxk_lab.settings import Numbers, Setting, Settings, Texts, number, setting


class House(Settings):
    rooms: int = number(3, "how many", low=1, high=9)
    height: float = number(2.5)
    roof: Literal["flat", "gable"] = setting("gable", "its shape")
    garden: bool = setting(True, later=True)
    people: Texts = setting([], "who lives there")
    shares: Numbers = setting([])
    open: str = setting("", spelling="time")


BY_NAME = {one.name: one for one in House.each()}


def test_a_setting_says_what_it_is() -> None:
    said = [(one.name, one.type_name, one.low, one.high, one.choices) for one in House.each()]
    assert said == [
        ("rooms", "int", 1, 9, ()),
        ("height", "float", None, None, ()),
        ("roof", "str", None, None, ("flat", "gable")),
        ("garden", "bool", None, None, ()),
        ("people", "list of str", None, None, ()),
        ("shares", "list of float", None, None, ()),
        ("open", "time", None, None, ()),
    ]
    assert [one.type for one in House.each()] == [int, float, str, bool, list, list, str]
    assert BY_NAME["rooms"].meaning == "how many"


def test_a_setting_that_came_later_is_left_out_at_its_default() -> None:
    assert House.defaults(later=False).keys() == House.defaults().keys() - {"garden"}
    assert House.without_later({"rooms": 3, "garden": True}) == {"rooms": 3}
    assert House.without_later({"garden": False}) == {"garden": False}


def test_a_value_comes_back_in_its_type() -> None:
    share = Setting("q", Annotated[float, Field(gt=0, le=1)], 0.25)
    parsed = [BY_NAME["rooms"].parse(9), BY_NAME["height"].parse(3), BY_NAME["roof"].parse("flat"),
              BY_NAME["people"].parse(["a", "b"]), BY_NAME["people"].parse("a"),
              BY_NAME["shares"].parse([1, 2.5]),
              # By itself, as in `affine[0.5]`, it reads a text that is a number.
              share.parse("0.5")]  # fmt: skip
    assert repr(parsed) == "[9, 3.0, 'flat', ['a', 'b'], ['a'], [1.0, 2.5], 0.5]"
    for written, words in (("0", "greater than 0"), ("x", "must be a number, got 'x'")):
        with pytest.raises(LabError, match=words):
            share.parse(written)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("rooms", 0, "rooms must be at least 1, got 0"),
        ("rooms", 10, "rooms must be at most 9, got 10"),
        ("rooms", 2.5, "rooms must be a whole number, got 2.5"),
        ("rooms", "3", "rooms must be a whole number, got '3'"),
        ("rooms", True, "rooms must be a whole number, got True"),
        ("height", float("nan"), "height must be a finite number, got nan"),
        ("height", 2e9, "height must be at most 1e+09, got 2000000000.0"),
        ("height", None, "height must be a number, got nothing"),
        ("roof", "gabel", "roof must be one of flat, gable, got 'gabel' (did you mean gable?)"),
        ("garden", 1, "garden must be true or false, got 1"),
        ("people", ["a", 3], "people must be a text, got 3"),
        ("shares", None, "shares must be a number, got nothing"),
        ("shares", [1.0, True], "shares must be a number, got True"),
    ],
)
def test_what_a_setting_does_not_take_is_said(name: str, value: object, words: str) -> None:
    with pytest.raises(LabError) as caught:
        BY_NAME[name].parse(value)
    assert str(caught.value) == words
