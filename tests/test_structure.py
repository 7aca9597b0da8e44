"""The house rules that a machine can check: imports point downward, markers pair up, one table."""

import ast
import re

import pytest
from factories import ROOT

from training.loop.run import Run

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
    "notebooks": {*LAYERS, "training", "lessons"},
    "course": {*LAYERS, "training", "checks"},
    "research": {*LAYERS, "training", "checks", "pretraining", "extensions", "lessons", "course"},
    "docs": {*LAYERS, "training", "checks", "pretraining", "extensions", "lessons", "research"},
}
OURS = {*LAYERS, *CHECKS, *MAY_IMPORT, "tests"}
READ_BY_ALL = {  # besides what MAY_IMPORT says
    "checks.graded_tasks",  # knows nothing
    "lessons.modern_bert",  # a model, as bert.py is one; pretraining trains its parts
}
STUDENTS = {"variants", "attacks"}  # folders of code that is written as a student's
LATE = {  # what is imported inside a function: only a flag, or a name to look up, asks for it
    "evaluation.py": {"training.reports.compare"},
    "training/files/hub.py": {"training.files.download"},
    "training/reports/report.py": {"training.reports.error_analysis", "training.reports.page"},
}
LATE_BY_NAME = {
    "training/loop/devices.py",  # training.fast, which students do not have
    "prepare_submit.py",  # the checks of part 2, which part 1 does not have
}
LOOPS = """
    classifier.py multitask_classifier.py extensions/multitask.py pretraining/pretrain.py
    lessons/token_classifier.py lessons/question_answering.py lessons/distil.py
""".split()
LONGEST_LOOP = 25


def files_of(package):
    files = (ROOT / package).rglob("*.py")
    return sorted(path for path in files if not {"tests", *STUDENTS} & set(path.parts))


def root_modules():
    return sorted(ROOT.glob("*.py"))


def dotted(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


FILES = [*root_modules(), *(path for package in MAY_IMPORT for path in files_of(package))]
TECHNIQUES = sorted((ROOT / "extensions").glob("*/*.py"))


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def names_in(tree):
    """Every module that a tree imports, with the dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not any(name.name == "*" for name in node.names), "star import"
            package = ROOT.joinpath(*(node.module or "").split("."))
            for name in node.names:
                inside = (package / f"{name.name}.py").is_file()
                yield f"{node.module}.{name.name}" if inside else node.module or ""


def imported_names(path):
    return list(names_in(parsed(path)))


def imported_modules(path):
    """The top names of all that is imported of ours, but for READ_BY_ALL."""
    names = {name.split(".")[0] for name in imported_names(path) if name not in READ_BY_ALL}
    return names & OURS


# ---------------------------------------------------------------------------------------------
# Imports


def test_every_module_at_the_root_has_a_layer():
    assert {path.stem for path in root_modules()} == LAYERS.keys() | CHECKS


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_imports_at_the_root_point_downward(name):
    lower = {other for other in LAYERS if LAYERS[other] <= LAYERS[name]} - {name}
    if name in SCRIPTS:
        lower -= SCRIPTS
    assert imported_modules(ROOT / f"{name}.py") <= lower | {"training"}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_of_a_package_point_downward(package):
    for path in files_of(package):
        above = imported_modules(path) - MAY_IMPORT[package] - {package}
        assert not above, f"{dotted(path)} imports {above}"


def test_training_fast_is_imported_by_nobody():
    """devices.speed_up asks for it by name, and does without it."""
    for path in FILES:
        if "fast" not in path.parts:
            assert not [name for name in imported_names(path) if name.startswith("training.fast")]


def test_there_is_no_circle():
    """Each file can be read before those that import it."""
    files = {dotted(path): path for path in FILES}
    imports = {name: set(imported_names(path)) & files.keys() for name, path in files.items()}
    while imports:
        free = {name for name, needed in imports.items() if not needed & imports.keys()}
        assert free, f"a circle among {sorted(imports)}"
        for name in free:
            del imports[name]


@pytest.mark.parametrize("path", files_of("checks"), ids=lambda path: path.stem)
def test_the_checks_of_a_part_can_be_taken_away(path):
    """Part 1 ships without part 2."""
    folder = path.relative_to(ROOT).parts[1:-1]
    allowed = {"part2"} if folder == ("part2",) else set()
    ours = [name.split(".") for name in imported_names(path) if name.startswith("checks.")]
    assert {name[1] for name in ours if len(name) > 2} <= {"part1", "hunt", "quiz", *allowed}


@pytest.mark.parametrize("path", TECHNIQUES, ids=dotted)
def test_techniques_know_nothing_of_scripts_and_data(path):
    """Pure functions, small modules: of ours they import each other and training/."""
    assert imported_modules(path) <= {"extensions", "training", "utils"}


def inside_functions(tree):
    """The nodes in the bodies of functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield from node.body


@pytest.mark.parametrize(
    "package",
    ["", "training", "pretraining", "extensions", "lessons"],
    ids=lambda name: name or ".",
)
def test_nothing_of_ours_is_imported_inside_a_function(package):
    """It would hide a circle. The checks do: a student's file may fail; else what LATE lists."""
    paths = files_of(package) if package else [ROOT / f"{name}.py" for name in LAYERS]
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        for statement in inside_functions(parsed(path)):
            inside = {module for module in names_in(statement) if module.split(".")[0] in OURS}
            assert inside <= LATE.get(name, set()), f"{name}:{statement.lineno}"
            by_name = re.findall(r"import_module\(f?['\"](\w+)", ast.unparse(statement))
            assert name in LATE_BY_NAME or not OURS & {*by_name}, f"{name}:{statement.lineno}"


# ---------------------------------------------------------------------------------------------
# The loop


def loop_of(path):
    """``for … in run.epochs():``, the only one of a script."""
    loops = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.For))
    (loop,) = (node for node in loops if ast.unparse(node.iter) == "run.epochs()")
    return loop


@pytest.mark.parametrize("name", LOOPS)
def test_every_script_has_its_loop_in_sight(name):
    """From the epochs to their end it fits in one look, in the order of a textbook."""
    loop = loop_of(ROOT / name)
    assert loop.end_lineno - loop.lineno + 1 <= LONGEST_LOOP
    calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
    lines = {}
    for call in calls:
        if isinstance(call.func, ast.Attribute):
            owner = ast.unparse(call.func.value)
            owner = owner if owner in ("run", "optimizer") else ""
            lines[f"{owner}.{call.func.attr}"] = call.lineno
    steps = [".backward", "run.gather_gradients", "optimizer.step", "optimizer.zero_grad"]
    steps.append("run.end_step")
    missing = {*steps, "run.batches"} - lines.keys()
    assert not missing, f"{name}: {missing} not in sight"
    assert [lines[step] for step in steps] == sorted(lines[step] for step in steps)


def attributes_of_run():
    """Methods, and what its own methods set."""
    tree = parsed(ROOT / "training" / "loop" / "run.py")
    (run,) = (node for node in tree.body if getattr(node, "name", "") == "Run")
    set_there = {
        node.attr
        for node in ast.walk(run)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }
    return {*dir(Run)} | set_there


@pytest.mark.parametrize(
    "pattern",
    [
        *LOOPS,
        "training/loop/run.py",
        "course/switches/*.toml",
        "course/variants/*.txt",
        "course/variants/*/*.py",
        "docs/*.md",
    ],
)
def test_what_is_asked_of_run_exists(pattern):
    """In scripts, docstrings, incorrect and other solutions, and the texts."""
    known = attributes_of_run()
    for path in ROOT.glob(pattern):
        asked = re.findall(r"(?<![\w.])run\.(\w+)\(", path.read_text(encoding="utf-8"))
        assert set(asked) <= known, f"{path.relative_to(ROOT)}: {set(asked) - known}"


# ---------------------------------------------------------------------------------------------
# Texts


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
