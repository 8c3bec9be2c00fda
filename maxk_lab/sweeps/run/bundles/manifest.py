"""The manifest of a bundle: what it holds, by names and hashes, and the version of its format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maxk_lab.findings import findings

MANIFEST = "manifest.json"
# Raised whenever an older maxk-lab could not read a bundle, or would misread it.
FORMAT = 1
_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_CellId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class LaterFormatError(ValueError):
    """A bundle that a later version of maxk-lab has written."""


class Manifest(BaseModel):
    """The content of `manifest.json`.

    `files` has the SHA-256 of every other file of the bundle by its name, `records` those of the
    records in every shard by the ids of their cells. `named` has the place of every file that the
    sweep names and that the bundle holds, by the hash that the sweep knows it by.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    format: int
    name: str
    maxk_lab: str
    files: Mapping[str, _Hash]
    records: Mapping[str, Mapping[_CellId, _Hash]]
    named: Mapping[_Hash, str]

    def to_bytes(self) -> bytes:
        """Return it as JSON with sorted keys."""
        return (json.dumps(self.model_dump(mode="json"), indent=1, sort_keys=True) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the manifest in JSON data.

        Raises `LaterFormatError` for one of a later format, and `ValueError` for what is none.
        """
        try:
            content: Any = json.loads(data)
        except (ValueError, RecursionError):
            raise ValueError(f"its {MANIFEST} is not complete JSON") from None
        found = content.get("format") if isinstance(content, dict) else None
        if type(found) is int and found > FORMAT:
            version = str(content.get("maxk_lab"))[:40]
            raise LaterFormatError(
                f"it is of format {found}, which maxk-lab {version} has written, and this version "
                f"reads formats up to {FORMAT}: install a newer maxk-lab"
            )
        try:
            manifest = cls.model_validate(content)
        except ValidationError as error:
            raise ValueError(f"its {MANIFEST}: {next(iter(findings(error, cls)))}") from None
        unknown = [name for name in manifest.records if name not in manifest.files]
        if unknown:
            raise ValueError(f"its {MANIFEST} lists records of a file that it does not list")
        return manifest
