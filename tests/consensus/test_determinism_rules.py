"""Determinism, checked on the source: the core never depends on clocks, randomness or set order."""

import ast
from pathlib import Path

import pytest

import borzoi.consensus

SOURCE = Path(borzoi.consensus.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
FORBIDDEN = {
    "asyncio",
    "time",
    "datetime",
    "random",
    "secrets",
    "uuid",
    "os",
    "pathlib",
    "socket",
    "selectors",
    "select",
    "threading",
    "multiprocessing",
    "logging",
}


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def makes_a_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("set", "frozenset")
    )


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_module_is_a_function_of_its_inputs(module):
    tree = ast.parse(module.read_text())
    assert imported(tree).isdisjoint(FORBIDDEN)
    for node in ast.walk(tree):
        where = f"{module.name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("hash", "id", "open", "print"), where
        if isinstance(node, ast.For | ast.comprehension):
            assert not makes_a_set(node.iter), f"{where} iterates over a set"
        assert not isinstance(node, ast.Assert), f"{where}: use invariant()"
        assert not isinstance(node, ast.Await | ast.AsyncFunctionDef), where
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), where


def test_sets_that_live_in_the_state_are_only_asked_never_walked():
    """The one set field holds clients; walking it would follow the hash seed of the process."""
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.For | ast.comprehension):
                walked = {n.attr for n in ast.walk(node.iter) if isinstance(n, ast.Attribute)}
                assert "registering" not in walked
