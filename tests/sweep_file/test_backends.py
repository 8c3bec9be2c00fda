"""The catalogue of backends: their parameters as a sweep file writes them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from maxk_lab.errors import LabError
from maxk_lab.sweep_file.backends import BACKENDS


def parsed(backend: str, name: str, value: Any) -> Any:
    return BACKENDS.get(backend).settings.from_mapping({name: value}).model_dump()[name]


@pytest.mark.parametrize(
    ("backend", "name", "written", "plain"),
    [
        ("ray", "address", "head:6379", "head:6379"),
        ("ray", "slots", 4, 4),
    ],
)
def test_parameters_are_read(backend: str, name: str, written: Any, plain: Any) -> None:
    assert parsed(backend, name, written) == plain
    assert parsed(backend, name, plain) == plain


@pytest.mark.parametrize(
    ("name", "written", "message"),
    [
        ("slots", -1, "slots must be at least 0, got -1"),
        ("address", "a b", "address must be a text of one word, got 'a b'"),
        ("address", "ray://head:1", "address is for a machine of the cluster, auto or host:port"),
    ],
)
def test_what_is_wrong_with_a_parameter_is_told(name: str, written: Any, message: str) -> None:
    with pytest.raises(LabError) as caught:
        parsed("ray", name, written)
    assert str(caught.value).startswith(message)
