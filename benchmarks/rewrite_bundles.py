"""Take removed settings, rows and claims out of the golden bundles; all other lines stay.

    python benchmarks/rewrite_bundles.py

Removed settings and claims leave spec.yaml, whose description is that of the sweep file. Records of
removed rows leave records/. A second call changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import golden
import yaml

from maxk_lab.execution.archive import _write
from maxk_lab.execution.store import SUFFIX
from maxk_lab.files import save_atomically

# Paths of removed keys; a list on the way stands for each of its entries.
REMOVED_KEYS: Sequence[str] = (
    "environment.top_p",
    "training.kl.reference",
    "training.kl.reference_every",
    "training.loss.dual_clip",
    "training.min_gap_scale",
    "training.reward_order",
    "training.truncated",
    "execution.cpus",
    "execution.reward_timeout",
    "figures",
)
_SAME_BATCH = {"baseline": ("affine[same_batch]", "ladder[same_batch]")}
# Golden run → axis → values whose cells are removed.
REMOVED_ROWS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "cross_fit_bandit": _SAME_BATCH,
    "cross_fit_llm": _SAME_BATCH,
    "cross_fit_tsp": _SAME_BATCH,
    "llm_training": {"baseline": ("otb_token",)},
    "off_policy": {"estimator": ("off_policy_first_order",)},
    "ordergrad_bandit": {"estimator": ("trimmed_mean[0.25]", "median", "cvar_lower[0.5]")},
}
# Golden run → names of removed claims.
REMOVED_CLAIMS: Mapping[str, Sequence[str]] = {
    "cross_fit_bandit": ("baselines_fitted_on_the_same_batch_are_biased",),
    "off_policy": ("first_order_weights_are_biased",),
}


def without_key(tree: Any, steps: Sequence[str]) -> None:
    """Delete the key at a path of mappings and lists, if it is there."""
    if isinstance(tree, list):
        for entry in tree:
            without_key(entry, steps)
    elif isinstance(tree, dict) and len(steps) == 1:
        tree.pop(steps[0], None)
    elif isinstance(tree, dict) and steps[0] in tree:
        without_key(tree[steps[0]], steps[1:])


def rewritten_spec(name: str, text: bytes) -> bytes:
    """Return spec.yaml without removed keys, values of grids and claims."""
    tree = yaml.safe_load(text)
    before = json.dumps(tree)
    for path in REMOVED_KEYS:
        without_key(tree, path.split("."))
    for study in ("gradient", "training", "objective", "weights"):
        grid = tree.get(study, {}).get("grid", [])
        for entry in grid if isinstance(grid, list) else [grid]:
            for axis, values in REMOVED_ROWS.get(name, {}).items():
                entry[axis] = [value for value in entry[axis] if value not in values]
    claims = REMOVED_CLAIMS.get(name, ())
    tree["claims"] = [claim for claim in tree["claims"] if claim["name"] not in claims]
    tree["description"] = yaml.safe_load(golden.sweep_file(name).read_bytes())["description"]
    if json.dumps(tree) == before:
        return text
    dumped = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=110)
    return dumped.encode()


def remaining(name: str, segment: bytes) -> bytes:
    """Return the lines of a segment without the records of removed rows."""
    removed = REMOVED_ROWS.get(name, {})

    def stays(line: bytes) -> bool:
        cell = json.loads(line.partition(b"\t")[2])["cell"]
        return not any(cell.get(axis) in values for axis, values in removed.items())

    lines = segment.splitlines(keepends=True)
    return b"".join(line for line in lines if not removed or stays(line))


def rewrite(name: str, path: Path) -> bool:
    """Rewrite one bundle; return whether anything in it changed."""
    with zipfile.ZipFile(path) as archive:
        entries = [(one.filename, archive.read(one)) for one in archive.infolist()]
    changed: list[tuple[str, bytes]] = []
    for file, content in entries:
        if file == "spec.yaml":
            changed.append((file, rewritten_spec(name, content)))
        elif file.endswith(SUFFIX):
            segment = remaining(name, content)
            digest = hashlib.sha256(segment).hexdigest()[:16]
            changed.append((f"records/{digest}{SUFFIX}", segment))
        else:
            changed.append((file, content))
    if changed == entries:
        return False
    save_atomically(path, lambda file: _write(file, changed))
    return True


def main(names: Iterable[str] = golden.SWEEPS) -> None:
    """Rewrite every golden bundle."""
    for name in names:
        if rewrite(name, golden.bundle_of(name)):
            print(f"rewritten: {name}")


if __name__ == "__main__":
    main()
