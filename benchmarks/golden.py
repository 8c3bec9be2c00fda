"""The golden results: run the sweeps behind them, bundle each, and render its report and figures.

    python benchmarks/golden.py --jobs 2              everything, going on where it stopped (hours)
    python benchmarks/golden.py tsp_sweep llm_bandit  these alone
    python benchmarks/golden.py --render              reports and figures anew, from the bundles
    python benchmarks/golden.py --list                the sweeps, in the order in which they run

Runs lie in results/, which git ignores, until all of them are there: a record says whether the
checkout had uncommitted changes. A sweep that reads what another one has made waits until that is
committed: then the same command measures it. In results/golden/<name> lie <name>.zip, report.md,
the figures that it links to, and figures.json, which tells the data that each figure shows.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "results/golden"
EXPERIMENTS = ROOT / "experiments"
# The longest first. Each is the file of this name in experiments/ or experiments/papers/.
SWEEPS = (
    "tsp_training",
    "co_training",
    "llm_training",
    "llm_passk",
    "llm_bandit",
    "tsp_sweep",
    "cross_fit_llm",
    "cross_fit_tsp",
    "cross_fit_bandit",
    "off_policy",
    "ordergrad_bandit",
    "pkpo_figure4",
    "pkpo_corollary3",
    "pkpo_figure1",
    "pkpo_figure5",
    "quick",
    "tsp_along_training",
)
# The policies of seed 0 that other sweeps and benchmarks read, by the sweep that trains them: the
# point of the grid, and the step.
POLICIES: Mapping[str, Mapping[str, tuple[Mapping[str, Any], int]]] = {
    "tsp_training": {
        "pomo-100": ({"estimator": "reinforce", "baseline": "group_mean", "k": 1}, 100),
        "pomo-800": ({"estimator": "reinforce", "baseline": "group_mean", "k": 1}, 800),
        "max8-800": ({"estimator": "maxk", "baseline": "centred", "k": 8}, 800),
    }
}
READS = {"tsp_along_training": "tsp_training"}
PROGRAM = "import sys; from maxk_lab.cli import main; sys.argv[0] = 'maxk-lab'; main()"


def sweep_file(name: str) -> Path:
    """Return the sweep file of a golden result."""
    return next(EXPERIMENTS.glob(f"**/{name}.yaml"))


def bundle_of(name: str) -> Path:
    """Return where the bundle of a golden result lies."""
    return GOLDEN / name / f"{name}.zip"


def run(name: str, results: Path, jobs: int) -> bool:
    """Measure what a sweep lacks; return whether every cell is done."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    words = ["run", str(sweep_file(name).relative_to(ROOT)), "--jobs", str(jobs), "--retry-failed"]
    words += ["--set", "tracking.wandb=disabled", "--no-reuse"]
    print(f"== maxk-lab {' '.join(words)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words, "--results", str(results)],
        cwd=ROOT,
        env={**os.environ, **threads, "PYTHONPATH": path},
        check=False,
    )
    if done.returncode == 130:
        sys.exit(130)
    return done.returncode == 0


def bundle(name: str, results: Path) -> None:
    """Bundle a run, and remove what else lies beside it but policies."""
    from maxk_lab.sweeps.run.bundle import write_bundle
    from maxk_lab.sweeps.run.records import RunDirectory

    folder = GOLDEN / name
    for path in folder.glob("*") if folder.is_dir() else ():
        if path.is_dir() and path.name != "policies":
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()
    written = write_bundle(RunDirectory(results / name), bundle_of(name))
    print(f"{written.path.relative_to(ROOT)}  {written.size:,} bytes, {written.records} records")
    keep_policies(name, results)


def policies(name: str, results: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the trained policies that others read: where the run has each, and where it is kept."""
    from maxk_lab.sweeps.plan.plan import make_plan
    from maxk_lab.sweeps.run.records import RunDirectory

    wanted = POLICIES.get(name, {})
    directory = RunDirectory(results / name)
    cells = make_plan(directory.spec()).cells if wanted else ()
    for policy, (point, step) in wanted.items():
        (cell,) = (
            one
            for one in cells
            if point.items() <= one.point.items()
            and one.seed == 0
            and one.setting.get("start", "iid") == "iid"
        )
        path = directory.cache_path / f"policy-{cell.id}-{step}.pt"
        yield path, GOLDEN / name / "policies" / f"{policy}.pt"


def keep_policies(name: str, results: Path) -> None:
    """Copy those policies."""
    for path, target in policies(name, results):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def must_wait(name: str, results: Path) -> bool:
    """Return whether a sweep has to wait for what another one makes, or until it is committed."""
    before = READS.get(name)
    if before is None:
        return False
    found = [*policies(before, results)] if (results / before / "spec.yaml").is_file() else []
    kept = all(new.is_file() and new.read_bytes() == old.read_bytes() for new, old in found)
    return changed() or not found or not kept


def render(name: str) -> None:
    """Write the report, its figures and their data beside a bundle."""
    from maxk_lab.report.summarise import summarise
    from maxk_lab.report.write import write_report
    from maxk_lab.sweeps.run.find import find_run

    folder = GOLDEN / name
    shutil.rmtree(folder / "figures", ignore_errors=True)
    with tempfile.TemporaryDirectory() as drawn, _told_figures() as data:
        paths = write_report(summarise(find_run(bundle_of(name))), Path(drawn), ["markdown"])
        for path in paths:
            target = folder / path.relative_to(drawn)
            target.parent.mkdir(exist_ok=True)
            if path.suffix == ".png":
                target.write_bytes(with_fewer_colours(path))
            elif path.suffix == ".md":
                shutil.copyfile(path, target)
    (folder / "figures.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"results/golden/{name}: {len(data)} figures, {size / 1e6:.2f} MB in all", flush=True)


def rendered(name: str) -> tuple[str, dict[str, Any]]:
    """Return the report as `render` writes it, and the data of its figures; no file is written."""
    from maxk_lab.report.summarise import summarise
    from maxk_lab.report.write import write_report
    from maxk_lab.sweeps.run.find import find_run

    summary = summarise(find_run(bundle_of(name)))
    with tempfile.TemporaryDirectory() as folder, _told_figures(drawn=False) as data:
        write_report(summary, Path(folder), ["markdown"])
        return Path(folder, "report.md").read_text(encoding="utf-8"), data


@contextmanager
def _told_figures(*, drawn: bool = True) -> Iterator[dict[str, Any]]:
    """Gather the data of every figure that is saved meanwhile; without `drawn` none is saved."""
    from maxk_lab.report import figures

    data: dict[str, Any] = {}
    save = figures.save

    def told(figure: Any, out: Path, name: str) -> list[Path]:
        data[name] = data_of(figure)
        return save(figure, out, name) if drawn else [out / f"{name}.png", out / f"{name}.svg"]

    setattr(figures, "save", told)  # noqa: B010  # mypy knows the name for one of another module
    try:
        yield data
    finally:
        setattr(figures, "save", save)  # noqa: B010


def data_of(figure: Any) -> dict[str, Any]:
    """Return what a figure shows: its panels, how many numbers, and a hash of words and numbers.

    Numbers count to six digits, so that the last bits of another machine do not.
    """
    shown: list[Any] = [[text.get_text() for text in figure.texts]]
    count = 0
    for panel in figure.axes:
        numbers: list[Any] = [line.get_xydata() for line in panel.lines]
        numbers += [part.get_offsets() for part in panel.collections]
        numbers += [path.vertices for part in panel.collections for path in part.get_paths()]
        numbers += [part.get_array() for part in panel.collections if part.get_array() is not None]
        numbers += [part.get_path().vertices for part in panel.patches]
        numbers += [image.get_array() for image in panel.images]
        told = [[f"{value:.6g}" for value in one.ravel()] for one in map(_plain, numbers)]
        count += sum(map(len, told))
        words = [panel.get_title(), panel.get_xlabel(), panel.get_ylabel()]
        words += [panel.get_xscale(), panel.get_yscale()]
        words += panel.get_legend_handles_labels()[1]
        words += [text.get_text() for text in panel.texts]
        shown.append([words, told])
    digest = hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]
    return {"panels": len(figure.axes), "numbers": count, "data": digest}


def _plain(numbers: Any) -> Any:
    import numpy as np

    return np.ma.filled(np.ma.asarray(numbers, dtype=float), np.nan)


def with_fewer_colours(path: Path) -> bytes:
    """Return a picture of 256 colours, which takes a third of the room; nothing is dithered."""
    from PIL import Image

    file = io.BytesIO()
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(file, "PNG", optimize=True)
    return file.getvalue()


def changed() -> bool:
    """Return whether the checkout has uncommitted changes, which a record would tell."""
    words = ["git", "status", "--porcelain"]
    return bool(subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout)


def make(names: Sequence[str], results: Path, jobs: int) -> list[str]:
    """Run all of these, then bundle and render them; return what is not whole, a line each."""
    trouble, done = [], []
    for name in names:
        if must_wait(name, results):
            trouble.append(
                f"{name} waits for the policies of {READS[name]}: commit results/golden once they "
                "lie there, then say the same again"
            )
        elif run(name, results, jobs):
            done.append(name)
        else:
            trouble.append(f"{name}: cells failed, or have no record")
    for name in done:
        bundle(name, results)
        render(name)
    return trouble


def main() -> None:
    """Make the golden results that are asked for; exit with 1 if any is not whole."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; all if left out")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="where runs lie")
    parser.add_argument("--render", action="store_true", help="render the bundles that lie there")
    parser.add_argument("--list", action="store_true", help="list the sweeps")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(SWEEPS)
    if unknown:
        parser.error(f"no golden result {', '.join(sorted(unknown))}; known: {', '.join(SWEEPS)}")
    names = [name for name in SWEEPS if name in arguments.names or not arguments.names]
    if arguments.list:
        for name in names:
            print(f"{name:<20} {sweep_file(name).relative_to(ROOT)}")
    elif arguments.render:
        for name in names:
            if bundle_of(name).is_file():
                render(name)
    else:
        trouble = make(names, arguments.results.absolute(), arguments.jobs)
        print("\n".join(trouble))
        sys.exit(bool(trouble))


if __name__ == "__main__":
    main()
