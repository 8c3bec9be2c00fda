"""A test that cannot fail proves nothing: each one asserts something, whatever its data are."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent
RAISING = ("raises", "warns", "check=True")


def asserts(body, helpers):
    """Whether one of the statements can fail; under `if`, only where both branches can."""
    for statement in body:
        text = ast.unparse(statement)
        if isinstance(statement, ast.Assert):
            return True
        if isinstance(statement, ast.If):
            if isinstance(statement.body[-1], ast.Return) and not asserts(statement.body, helpers):
                return False
            if asserts(statement.body, helpers) and asserts(statement.orelse, helpers):
                return True
        elif isinstance(statement, (ast.For, ast.With, ast.Try)):
            entered = ast.unparse(statement.items[0]) if isinstance(statement, ast.With) else ""
            if any(word in entered for word in RAISING) or asserts(statement.body, helpers):
                return True
        elif any(f"{helper}(" in text for helper in helpers) or "check=True" in text:
            return True
    return False


def silent(tree):
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    known = {"assert_close", "assert_allclose", "assert_array_equal", "check_pair"}
    helpers = known | {
        function.name
        for function in functions
        if not function.name.startswith("test_") and asserts(function.body, known)
    }
    return [
        f"{function.name} in line {function.lineno}"
        for function in functions
        if function.name.startswith("test_") and not asserts(function.body, helpers)
    ]


def test_every_test_asserts_something():
    found = {path: silent(ast.parse(path.read_text("utf-8"))) for path in TESTS.rglob("test_*.py")}
    assert len(found) > 50
    assert not {str(path.relative_to(TESTS)): tests for path, tests in found.items() if tests}
