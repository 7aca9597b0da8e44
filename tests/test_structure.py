"""Imports point downward."""

import ast

import pytest
from factories import ROOT

LAYERS = {  # of the files at the root
    "config": 0,
    "utils": 0,
    "tokenizer": 1,
    "base_bert": 1,
    "optimizer": 1,
    "bert": 2,
    "datasets": 2,
    "evaluation": 3,
    "classifier": 4,
    "multitask_classifier": 4,
    "prepare_submit": 5,
}
CHECKS = {"sanity_check", "optimizer_test"}  # the command lines of checks/
MODEL = {name for name, layer in LAYERS.items() if layer < 3}
SCRIPTS = {name for name, layer in LAYERS.items() if layer == 4}
MAY_IMPORT = {  # besides each other; nothing but research/ and docs/ needs what is above it
    "training": set(),
    "checks": {*LAYERS, "training"},
    "pretraining": {*MODEL, "training"},
    "extensions": {*LAYERS, "training"},
    "lessons": {*LAYERS, "training", "checks", "pretraining", "extensions"},
    "data": {*LAYERS, "training", "extensions"},
    "course": {*LAYERS, "training", "checks"},
    "research": {*LAYERS, "training", "checks", "pretraining", "extensions", "lessons", "course"},
    "docs": {*LAYERS, "training", "pretraining", "lessons", "research", "course"},
}
OURS = {*LAYERS, *CHECKS, *MAY_IMPORT, "tests"}
READ_BY_ALL = {  # besides what MAY_IMPORT says
    "checks.graded_tasks",  # knows nothing
    "lessons.modern_bert",  # a model, as bert.py is one; pretraining trains its parts
}
LEFT_OUT = {"tests", "variants", "attacks"}  # the latter have code that is written as a student's


def imported_names(path):
    """Every module that a file imports, with the dots."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not any(name.name == "*" for name in node.names), "star import"
            package = ROOT.joinpath(*(node.module or "").split("."))
            for name in node.names:
                inside = (package / f"{name.name}.py").is_file()
                yield f"{node.module}.{name.name}" if inside else node.module or ""


def imported_modules(path):
    """The top names of all that is imported of ours, but for READ_BY_ALL."""
    names = {name.split(".")[0] for name in imported_names(path) if name not in READ_BY_ALL}
    return names & OURS


def test_every_module_at_the_root_has_a_layer():
    assert {path.stem for path in ROOT.glob("*.py")} == LAYERS.keys() | CHECKS


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_imports_at_the_root_point_downward(name):
    lower = {other for other in LAYERS if LAYERS[other] <= LAYERS[name]} - {name}
    if name in SCRIPTS:
        lower -= SCRIPTS
    assert imported_modules(ROOT / f"{name}.py") <= lower | {"training"}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_of_a_package_point_downward(package):
    for path in (ROOT / package).rglob("*.py"):
        if LEFT_OUT & set(path.parts):
            continue
        above = imported_modules(path) - MAY_IMPORT[package] - {package}
        assert not above, f"{path.relative_to(ROOT)} imports {above}"
