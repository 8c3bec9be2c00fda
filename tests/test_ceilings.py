"""The ceilings count every room, and a size above its ceiling fails."""

import subprocess

import ceilings

FILES = {"maxk_lab/a.py": 2, "maxk_lab/policies/a.py": 3, "maxk_lab/environments/x/a.py": 4}
FILES |= {"maxk_lab/reports/a.html": 5, "maxk_lab/a.j2": 6, "tests/x/a.py": 7, "docs/a.md": 90}


def test_every_line_counts_in_its_room(tmp_path, capsys):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for name, lines in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a\n" * lines)
    counted = {"top level": 2, "environments + policies": 7, "page": 5, "templates": 6, "tests": 7}
    # Each line has three nodes: an expression, a name and its context.
    assert ceilings.lines_of(tmp_path) == counted | {"package": 9, "files": 3, "AST nodes": 30}
    assert ceilings.main(tmp_path) == 0
    (tmp_path / "maxk_lab/cellar").mkdir()
    (tmp_path / "maxk_lab/cellar/a.py").write_text("a\n")
    assert ceilings.main(tmp_path) == 1
    assert "cellar" in capsys.readouterr().out
