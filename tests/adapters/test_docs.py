"""docs/adapters.md does what it says."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/adapters.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_python(block):
    names: dict[str, object] = {}
    exec(compile(block, "adapters.md", "exec"), names)
    assert len(names) > 1  # beside the builtins
