"""Tests the maximal lengths of files and functions."""

from __future__ import annotations

import ast

from tests.test_layers import modules

FILE, FUNCTION, COMMAND = 600, 60, 40
"""Most lines of a file, of a function, and of the body of a command."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_command(function: Function) -> bool:
    """Whether a function is a verb of the command line: decorated with `@app.command(...)` of some app.

    Its parameters are the verb's options, each with its help, so that its signature is a table and no code.
    """
    called = [node.func for node in function.decorator_list if isinstance(node, ast.Call)]
    return any(isinstance(name, ast.Attribute) and name.attr == "command" for name in called)


def too_long(source: str) -> list[str]:
    """`name (lines)` of each function that is too long.

    The lines of a function run from `def` to its end, decorators left out. Of a command they run from the docstring.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function):
            command = is_command(node)
            assert node.end_lineno is not None
            lines = node.end_lineno - (node.body[0].lineno if command else node.lineno) + 1
            if lines > (COMMAND if command else FUNCTION):
                found.append(f"{node.name} ({lines} lines)")
    return found


def test_files_and_functions_are_short() -> None:
    long = {}
    for name, file in modules():
        source = file.read_text(encoding="utf-8")
        lines = len(source.splitlines())
        long[name] = [f"{lines} lines"] * (lines > FILE) + too_long(source)
    assert {name: found for name, found in long.items() if found} == {}


def function(decorator: str, options: int, statements: int) -> str:
    parameters = [f"    o{i}: int = {i}," for i in range(options)]
    return "\n".join([decorator, "def f(", *parameters, ") -> None:", *["    pass"] * statements])


def test_lines_are_counted_from_def_and_of_a_command_without_its_options() -> None:
    assert too_long(function("@cache", 8, 50)) == []  # def f(, 8 options, ), 50 statements: 60 lines
    assert too_long(function("@cache", 8, 51)) == ["f (61 lines)"]
    assert too_long(function("@app.command()", 100, 40)) == []
    assert too_long(function("@app.command()", 100, 41)) == ["f (41 lines)"]
    assert too_long("class A:\n" + "    def f(self):\n" + "        pass\n" * 60) == ["f (61 lines)"]
