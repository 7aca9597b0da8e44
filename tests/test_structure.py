"""The house rules that a machine can check: imports point downward, markers pair up, one table."""

import ast
import re

import pytest
from conftest import ROOT

from tasks import TASKS

LAYERS = {
    "config": 0,
    "utils": 0,
    "unicode8": 0,
    "tasks": 0,
    "tokenizer": 1,
    "base_bert": 1,
    "optimizer": 1,
    "bert": 2,
    "datasets": 2,
    "corpus": 2,
    "evaluation": 3,
    "masking": 3,
    "classifier": 4,
    "multitask_classifier": 4,
    "pretrain": 4,
    "prepare_submit": 5,
    "ensemble": 5,
}
CHECKS = {
    "sanity_check",
    "sanity_tools",
    "sanity_part1",
    "sanity_part2",
    "sanity_calls",
    "sanity_training",
    "sanity_hints",
    "sanity_probes",
    "optimizer_test",
    "optimizer_probes",
}
EXTENSIONS = sorted((ROOT / "extensions").glob("*.py"))
TRAINING = sorted((ROOT / "training").glob("*.py"))
PACKAGE = {"training": 1}  # the layer of its files
LOOPS = {
    "classifier.py": 20,
    "multitask_classifier.py": 20,  # as a student sees it
    "pretrain.py": 20,
    "lessons/token_classifier.py": 20,
    "lessons/question_answering.py": 20,
    "lessons/distil.py": 20,
}
MARKER = re.compile(r"^ *### (BEGIN|END) SOLUTION ([\w.]+)$", re.MULTILINE)


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not any(name.name == "*" for name in node.names), f"{path}: star import"
            yield (node.module or "").split(".")[0]


def root_modules():
    return sorted(ROOT.glob("*.py"))


def test_every_module_at_the_root_has_a_layer():
    assert {path.stem for path in root_modules()} == LAYERS.keys() | CHECKS


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_imports_point_downward(name):
    # config → utils is the one import within a layer, made inside a function
    for imported in imported_modules(ROOT / f"{name}.py"):
        if imported in LAYERS | PACKAGE:
            layers = LAYERS | PACKAGE
            assert layers[imported] <= layers[name], f"{name} imports {imported}"
            scripts = {"classifier", "multitask_classifier", "pretrain"}
            assert name == imported or not {name, imported} <= scripts
        assert imported not in CHECKS | {"course", "tests", "lessons"}, f"{name}: {imported}"


def test_training_stands_on_utils_alone_and_has_no_circle():
    """Each file there can be read before those that import it."""
    imports = {}
    for path in TRAINING:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        ours = {name for name in names if name.split(".")[0] in {*LAYERS, *CHECKS, *PACKAGE}}
        assert {name for name in ours if not name.startswith("training.")} <= {"utils"}, path
        imports[path.stem] = {name.split(".")[1] for name in ours if name != "utils"}
    while imports:
        free = {name for name, needed in imports.items() if not needed & imports.keys()}
        assert free, f"a circle among {sorted(imports)}"
        imports = {name: needed for name, needed in imports.items() if name not in free}


@pytest.mark.parametrize("name", LOOPS)
def test_every_script_has_its_loop_in_sight(name):
    """From the epochs to their end it fits in one look, and nothing in it calls back."""
    text = (ROOT / name).read_text(encoding="utf-8")
    solution = re.compile(r"^ *### BEGIN SOLUTION.*?### END SOLUTION.*?\n", re.M | re.S)

    def stub(region):
        return re.sub(r"^(?!.*### STUB: ).*\n", "", region[0], flags=re.M).replace("### STUB: ", "")

    (loop,) = (
        node
        for node in ast.walk(ast.parse(solution.sub(stub, text)))
        if isinstance(node, ast.For) and ast.unparse(node.iter) == "run.epochs()"
    )
    assert loop.end_lineno - loop.lineno + 1 <= LOOPS[name]
    called = [ast.unparse(node.func) for node in ast.walk(loop) if isinstance(node, ast.Call)]
    assert {"run.batches", "run.micro_batches", "run.backward", "run.step"} <= set(called)


@pytest.mark.parametrize("path", EXTENSIONS, ids=lambda path: path.stem)
def test_extensions_know_nothing_of_scripts_and_data(path):
    """Pure functions, small modules: of ours they import each other and the lowest layer."""
    ours = set(imported_modules(path)) & (LAYERS.keys() | CHECKS)
    assert ours <= {"utils"}


def test_nothing_but_solutions_imports_extensions():
    """They stay with the staff: what a student gets must run without them."""
    for path in root_modules():
        text = path.read_text(encoding="utf-8")
        outside = re.sub(r"### BEGIN SOLUTION.*?### END SOLUTION", "", text, flags=re.DOTALL)
        assert not re.search(r"^ *(from|import) extensions", outside, re.MULTILINE), path


def test_solution_markers_pair_up_and_stand_in_the_table():
    seen = []
    for path in root_modules():
        open_id = None
        for kind, identifier in MARKER.findall(path.read_text(encoding="utf-8")):
            if kind == "BEGIN":
                assert open_id is None, f"{path}: {identifier} inside {open_id}"
                assert identifier not in seen, f"{identifier} twice"
                seen.append(identifier)
                open_id = identifier
            else:
                assert open_id == identifier, f"{path}: END {identifier} after BEGIN {open_id}"
                open_id = None
        assert open_id is None, f"{path}: {open_id} is never closed"
    graded = {task.id for task in TASKS}
    assert graded <= set(seen)
    files = {task.id.split(".")[0] for task in TASKS}
    assert {name.split(".")[0] for name in seen} <= files  # what only a solution needs


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.number)
def test_readme_task_table_is_the_registry(task):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    row = (
        f"| {task.number} | `{task.file}` `{task.function}` | {task.paper} | {task.points} "
        f"| {task.minutes} | `{task.check}` |"
    )
    assert row in readme


def test_readme_and_structure_name_every_file():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    structure = (ROOT / "STRUCTURE.md").read_text(encoding="utf-8")
    for path in root_modules():
        assert path.name in readme, f"README.md does not mention {path.name}"
        assert path.name in structure, f"STRUCTURE.md does not mention {path.name}"
