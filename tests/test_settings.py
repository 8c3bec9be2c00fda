"""Settings of catalogue rows: their types, their values, and the words about wrong ones."""

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
# One of an estimator's parameters, as in `affine[0.5]`: a text may be a number.
BY_NAME["share"] = Setting("q", Annotated[float, Field(gt=0, le=1)], 0.25)


def test_a_setting_has_a_type_bounds_choices_and_a_meaning():
    assert [(one.name, one.type, one.type_name) for one in House.each()] == [
        ("rooms", int, "int"),
        ("height", float, "float"),
        ("roof", str, "str"),
        ("garden", bool, "bool"),
        ("people", list, "list of str"),
        ("shares", list, "list of float"),
        ("open", str, "time"),
    ]
    rooms, roof = BY_NAME["rooms"], BY_NAME["roof"]
    assert (rooms.low, rooms.high, rooms.choices, rooms.meaning) == (1, 9, (), "how many")
    assert (roof.low, roof.high, roof.choices) == (None, None, ("flat", "gable"))


def test_a_setting_that_came_later_is_left_out_at_its_default():
    assert House.defaults(later=False).keys() == House.defaults().keys() - {"garden"}
    assert House.without_later({"rooms": 3, "garden": True}) == {"rooms": 3}
    assert House.without_later({"garden": False}) == {"garden": False}


@pytest.mark.parametrize(
    ("name", "value", "parsed"),
    [
        ("rooms", 9, 9),
        ("height", 3, 3.0),
        ("roof", "flat", "flat"),
        ("people", ["a", "b"], ["a", "b"]),
        ("people", "a", ["a"]),
        ("shares", [1, 2.5], [1.0, 2.5]),
        ("share", "0.5", 0.5),
        ("share", "0", "q must be greater than 0, got '0'"),
        ("share", "x", "q must be a number, got 'x'"),
        ("rooms", 0, "rooms must be at least 1, got 0"),
        ("rooms", 10, "rooms must be at most 9, got 10"),
        ("rooms", True, "rooms must be a whole number, got True"),
        ("height", float("nan"), "height must be a finite number, got nan"),
        ("height", None, "height must be a number, got nothing"),
        ("roof", "gabel", "roof must be one of flat, gable, got 'gabel' (did you mean gable?)"),
        ("garden", 1, "garden must be true or false, got 1"),
        ("people", ["a", 3], "people must be a text, got 3"),
        ("shares", [1.0, True], "shares must be a number, got True"),
    ],
)
def test_a_value_is_parsed_or_refused(name, value, parsed):
    if str(parsed).startswith(f"{BY_NAME[name].name} must be "):
        with pytest.raises(LabError) as caught:
            BY_NAME[name].parse(value)
        assert str(caught.value) == parsed
    else:
        assert repr(BY_NAME[name].parse(value)) == repr(parsed)
