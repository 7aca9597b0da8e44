"""The house rules that a machine can check: imports point downward, markers pair up, one table."""

import ast
import re

import pytest
from support import ROOT

from checks.graded_tasks import GRADED_TASKS

LAYERS = {
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
ROOMS = sorted((ROOT / "extensions").glob("*/*.py"))
TRAINING = sorted(path for room in ("training", "solution") for path in (ROOT / room).rglob("*.py"))
CHECK_FILES = sorted((ROOT / "checks").rglob("*.py"))
PRETRAINING = sorted((ROOT / "pretraining").glob("[!_]*.py"))
PACKAGE = {"training": 0, "pretraining": 4}  # the layer of its files
TASK_TABLE = "checks.graded_tasks"  # knows nothing, and may be read by all
LOOPS = """
    classifier.py multitask_classifier.py extensions/multitask.py pretraining/pretrain.py
    lessons/token_classifier.py lessons/question_answering.py lessons/distil.py
""".split()
LONGEST_LOOP = 20
LONGEST_FUNCTION = 60
MARKER = re.compile(r"^ *### (BEGIN|END) SOLUTION ([\w.]+)$", re.MULTILINE)


def imported_names(path):
    """Of every module that a file imports, with the dots."""
    yield from names_in(ast.parse(path.read_text(encoding="utf-8")))


def names_in(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not any(name.name == "*" for name in node.names), "star import"
            package = ROOT.joinpath(*(node.module or "").split("."))
            for name in node.names:
                inside = (package / f"{name.name}.py").is_file()
                yield f"{node.module}.{name.name}" if inside else node.module or ""


def imported_modules(path):
    """Of all but the table of tasks the top name."""
    names = (name for name in imported_names(path) if name != TASK_TABLE)
    yield from (name.split(".")[0] for name in names)


def without_circle(imports):
    """Whether each name can be read before those that need it; ``imports`` is used up."""
    while imports:
        free = {name for name, needed in imports.items() if not needed & imports.keys()}
        assert free, f"a circle among {sorted(imports)}"
        for name in free:
            del imports[name]
    return True


def root_modules():
    return sorted(ROOT.glob("*.py"))


def test_every_module_at_the_root_has_a_layer():
    assert {path.stem for path in root_modules()} == LAYERS.keys() | CHECKS


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_imports_point_downward(name):
    for imported in imported_modules(ROOT / f"{name}.py"):
        if imported in LAYERS | PACKAGE:
            layers = LAYERS | PACKAGE
            assert layers[imported] <= layers[name], f"{name} imports {imported}"
            scripts = {"classifier", "multitask_classifier", "pretraining"}
            assert name == imported or not {name, imported} <= scripts
        above = CHECKS | {"checks", "course", "tests", "lessons"}
        assert imported not in above, f"{name}: {imported}"


@pytest.mark.parametrize("path", CHECK_FILES, ids=lambda path: path.stem)
def test_the_checks_of_a_part_can_be_taken_away(path):
    """Part 1 ships without part 2."""
    room = path.relative_to(ROOT).parts[1:-1]
    allowed = {(): {"part1"}, ("part1",): {"part1"}, ("part2",): {"part1", "part2"}}[room]
    ours = [name.split(".") for name in imported_names(path) if name.startswith("checks.")]
    assert {name[1] for name in ours if len(name) > 2} <= allowed
    assert not {"course", "tests", "lessons", *CHECKS} & set(imported_modules(path))


def test_the_checks_have_no_circle():
    imports = {}
    for path in CHECK_FILES:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        imports[name] = {one for one in imported_names(path) if one.startswith("checks.")}
    assert without_circle(imports)


@pytest.mark.parametrize("path", PRETRAINING, ids=lambda path: path.stem)
def test_pre_training_stands_on_the_model(path):
    allowed = {name for name, layer in LAYERS.items() if layer < 3} | PACKAGE.keys()
    ours = set(imported_modules(path)) & {*LAYERS, *CHECKS, *PACKAGE, "checks"}
    assert ours <= allowed
    order = [
        f"pretraining.{name}"
        for name in ("corpus", "model", "masking", "presets", "pretrain", "ship")
    ]
    lower = {name for name in imported_names(path) if name.startswith("pretraining.")}
    assert lower <= set(order[: order.index(f"pretraining.{path.stem}")])


def dotted(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", TRAINING, ids=dotted)
def test_training_stands_on_itself(path):
    """Nothing of the desk, so that each file there can be read without it."""
    assert not set(imported_modules(path)) & {*LAYERS, *CHECKS, "pretraining", "checks"}
    fast = [name for name in imported_names(path) if name.startswith("training.fast")]
    assert not fast or dotted(path) == "training.acceleration"  # which does without it, too


def test_there_is_no_circle_among_the_desk_and_training():
    """Each file can be read before those that import it."""
    files = {dotted(path): path for path in (*root_modules(), *TRAINING)}
    assert without_circle(
        {name: set(imported_names(path)) & files.keys() for name, path in files.items()}
    )


@pytest.mark.parametrize("path", [*root_modules(), *TRAINING], ids=dotted)
def test_nothing_of_ours_is_imported_inside_a_function(path):
    """It would hide a circle. Only the checks import there: a student's file, which may fail."""
    if path.stem in CHECKS:
        pytest.skip("checks import a student's file when they look at it")
    ours = {*LAYERS, *CHECKS, *PACKAGE, "checks", "extensions"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            body = ast.Module(node.body, [])
            inside = {name.split(".")[0] for name in names_in(body)}
            assert not inside & ours, f"{path}: {node.name}"


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
    assert loop.end_lineno - loop.lineno + 1 <= LONGEST_LOOP
    called = [ast.unparse(node.func) for node in ast.walk(loop) if isinstance(node, ast.Call)]
    assert {"run.batches", "run.micro_batches", "run.backward", "run.step"} <= set(called)


@pytest.mark.parametrize("path", ROOMS, ids=dotted)
def test_techniques_know_nothing_of_scripts_and_data(path):
    """Pure functions, small modules: of ours they import each other and training/."""
    above = {*LAYERS, *CHECKS, "checks", "pretraining"} - {"utils"}
    assert not set(imported_modules(path)) & above
    others = {name for name in imported_names(path) if name.startswith("extensions.")}
    assert {name.split(".")[1] for name in others} <= {room.parent.name for room in ROOMS}


def test_nothing_at_the_root_knows_extensions():
    """They stay with the staff: what a student gets must run without them."""
    for path in (*root_modules(), *TRAINING, *CHECK_FILES):
        assert "extensions" not in set(imported_modules(path)), path


@pytest.mark.parametrize(
    "name", ["classifier.py", "multitask_classifier.py", "extensions/multitask.py"]
)
def test_every_function_fits_in_one_look(name):
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert max(node.end_lineno - node.lineno + 1 for node in functions) <= LONGEST_FUNCTION


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
    graded = {task.id for task in GRADED_TASKS}
    assert graded <= set(seen)
    files = {task.id.split(".")[0] for task in GRADED_TASKS}
    assert {name.split(".")[0] for name in seen} <= files  # what only a solution needs


def test_readme_and_structure_name_every_file():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    structure = (ROOT / "STRUCTURE.md").read_text(encoding="utf-8")
    for path in root_modules():
        assert path.name in readme, f"README.md does not mention {path.name}"
        assert path.name in structure, f"STRUCTURE.md does not mention {path.name}"


def test_the_walk_of_a_sentence_is_ten_lines_of_names_that_exist():
    text = (ROOT / "STRUCTURE.md").read_text(encoding="utf-8")
    walk = text.split("## The walk of a sentence\n")[1].split("\n## ")[0]
    lines = re.findall(r"^(\d+)\. (.*)$", walk, re.MULTILINE)
    assert [int(number) for number, _ in lines] == list(range(1, 11))
    for _, line in lines:
        named = re.findall(r"`([\w/]+\.py)` `([\w.]+)`", line)
        assert named, line
        for file, name in named:
            nodes = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
            for part in name.split("."):
                found = [node for node in nodes if getattr(node, "name", None) == part]
                assert found, f"{file} has no {name}"
                nodes = found[0].body
