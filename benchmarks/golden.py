"""The golden results: run the sweeps behind them, bundle each, and render its report and figures.

    python benchmarks/golden.py --jobs 2              all that read nothing of another, going on
                                                      where it stopped (hours)
    python benchmarks/golden.py tsp_sweep llm_bandit  these alone
    python benchmarks/golden.py --render              render the reports and figures of the bundles

Runs lie in results/, which git ignores, until all of them are there: a record says whether the
checkout had uncommitted changes. So a sweep that reads what another one has made is named once that
is committed. results/golden/<name> holds <name>.zip, report.md and the figures that it links to.
golden_values.py holds the numbers against their frozen values.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "results/golden"
EXPERIMENTS = ROOT / "experiments"
# The longest first. Each is the file of this name in experiments/ or experiments/papers/.
FIRST = (
    "tsp50_replication",
    "tsp_tuning",
    "tsp_training_tuned",
    "tsp_training_tuned_800",
    "tsp_training",
    "pronounce_training",
    "pronounce_tuning",
    "pronounce",
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
    "selection",
)
# These read the policies that other sweeps have made.
READERS = ("tsp_along_training", "tsp50_explained", "tsp50_weights")
SWEEPS = (*FIRST, *READERS)
# The policies of seed 0 that other sweeps and benchmarks read, by the sweep that trains them: the
# point of the grid, and the step.
POLICIES: Mapping[str, Mapping[str, tuple[Mapping[str, Any], int]]] = {
    "tsp_training": {
        "pomo-100": ({"estimator": "reinforce", "baseline": "group_mean", "k": 1}, 100),
        "pomo-800": ({"estimator": "reinforce", "baseline": "group_mean", "k": 1}, 800),
        "max8-800": ({"estimator": "maxk", "baseline": "centred", "k": 8}, 800),
    },
    "tsp50_replication": {
        "pomo-1000": ({"estimator": "reinforce", "start": "multistart"}, 1000),
        "hybrid-1000": ({"estimator": "hybrid[0.5]", "start": "multistart"}, 1000),
        "max8-1000": ({"estimator": "maxk", "baseline": "subloo", "k": 8}, 1000),
    },
}
# Of a picture that is kept.
MOST_BYTES = 110_000
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
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    words = ["run", str(sweep_file(name).relative_to(ROOT)), "--jobs", str(jobs), "--retry-failed"]
    words += ["--set", "tracking.wandb=disabled", "--results", str(results)]
    print(f"== maxk-lab {' '.join(words)}", flush=True)
    env = {**os.environ, **threads, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], cwd=ROOT, env=env, check=False)
    if done.returncode == 130:
        sys.exit(130)
    return done.returncode == 0


def bundle(name: str, results: Path) -> None:
    """Bundle a run and copy the policies that others read; what else lay beside it goes."""
    from maxk_lab.execution.archive import write_bundle
    from maxk_lab.execution.records import RunDirectory
    from maxk_lab.planning.plan import make_plan

    directory, folder = RunDirectory(results / name), GOLDEN / name
    shutil.rmtree(folder, ignore_errors=True)
    written = write_bundle(directory, bundle_of(name))
    size = written.path.stat().st_size
    print(f"{written.path.relative_to(ROOT)}  {size:,} bytes, {written.records} records")
    for policy, (point, step) in POLICIES.get(name, {}).items():
        axes = ({"start": "iid"} | point).items()
        (cell,) = (
            cell
            for cell in make_plan(directory.spec()).cells
            if cell.seed == 0 and axes <= {"start": "iid", **cell.setting, **cell.point}.items()
        )
        (folder / "policies").mkdir(exist_ok=True)
        path = directory.cache_path / f"policy-{cell.id}-{step}.pt"
        shutil.copyfile(path, folder / f"policies/{policy}.pt")


def render(name: str) -> None:
    """Write the report and its figures beside a bundle."""
    from maxk_lab.execution.archive import find_run
    from maxk_lab.reports.report import read_report
    from maxk_lab.reports.write import write_report

    folder = GOLDEN / name
    shutil.rmtree(folder / "figures", ignore_errors=True)
    with tempfile.TemporaryDirectory() as drawn:
        write_report(read_report(find_run(bundle_of(name))), Path(drawn), ["markdown"])
        shutil.copyfile(Path(drawn) / "report.md", folder / "report.md")
        for path in Path(drawn).glob("figures/*.png"):
            target = folder / "figures" / path.name
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(with_fewer_colours(path))
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(f"results/golden/{name}: {len(files)} files, {size / 1e6:.2f} MB", flush=True)


def with_fewer_colours(path: Path) -> bytes:
    """Return a picture of 255 colours with at most `MOST_BYTES`."""
    from PIL import Image

    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    while True:
        file = io.BytesIO()
        few = picture.quantize(255, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        few.save(file, "PNG", optimize=True)
        if file.tell() <= MOST_BYTES:
            return file.getvalue()
        width, height = picture.size
        picture = picture.resize((width * 5 // 6, height * 5 // 6), Image.Resampling.LANCZOS)


def main() -> None:
    """Make the golden results that are asked for; exit with 1 if any is not whole."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="where runs lie")
    parser.add_argument("--render", action="store_true", help="render the bundles that lie there")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(SWEEPS)
    if unknown:
        parser.error(f"no golden result {', '.join(sorted(unknown))}; known: {', '.join(SWEEPS)}")
    names = arguments.names or (SWEEPS if arguments.render else FIRST)
    results = arguments.results.absolute()
    if arguments.render:
        done = [name for name in names if bundle_of(name).is_file()]
    else:
        done = [name for name in names if run(name, results, arguments.jobs)]
        for name in done:
            bundle(name, results)
    for name in done:
        render(name)
    if not arguments.render and len(done) < len(names):
        sys.exit(f"cells failed, or have no record: {', '.join(sorted({*names} - {*done}))}")


if __name__ == "__main__":
    main()
