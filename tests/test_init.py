"""The names that are found in `borzoi` itself."""

import ast
from pathlib import Path

import pytest
from tests.support.interpreter import run_python

import borzoi
from borzoi import client

STUB = Path(borzoi.__file__).with_suffix(".pyi")


def test_the_names_are_those_of_the_client() -> None:
    assert borzoi.AsyncClient is client.AsyncClient
    assert borzoi.read is client.read
    assert "Client" in dir(borzoi)
    with pytest.raises(AttributeError, match="no attribute 'Sheep'"):
        getattr(borzoi, "Sheep")  # noqa: B009


def test_type_checkers_see_the_same_names() -> None:
    seen = {
        (alias.name, node.module)
        for node in ast.walk(ast.parse(STUB.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == set(vars(borzoi)["_FOUND_HERE"].items())


def test_a_server_does_not_load_the_client() -> None:
    program = "import sys, borzoi; print('borzoi.client' in sys.modules)"
    assert run_python("-c", program, check=True).stdout == "False\n"
