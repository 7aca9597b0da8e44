"""Viva sheets: keys that hold when run in another way, pages and files, hostile submissions."""

import base64
import html
import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import torch
from reexecution import verdicts
from support import ROOT, needs_sandbox, quiz_of

from course import viva
from course.answers import MISTAKES, VARIANTS, put, read
from course.grading.judging.types import Submission
from course.grading.pages import sheets
from course.grading.sandbox.confine import Limits
from course.grading.sandbox.context import open_context
from training.files.errors import InputError

FILES = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("bert.py", "optimizer.py", "classifier.py")
}
PART_1 = ("1.1", "1.2", "1.3", "1.4", "1.5", "1.7")
MODELS = {"classifier.py": ("1.6",), "multitask_classifier.py": ("2.1", "2.2", "2.3", "2.4", "2.5")}
GROUPS = {  # answers that take our solution's place
    "the solution": [],
    "one-liners and loops": [
        (VARIANTS, "bert.attention/loops"),
        (VARIANTS, "bert.add_norm/one_expression"),
        (VARIANTS, "optimizer.step/in_place"),
        (VARIANTS, "bert.embed/piece_by_piece"),
    ],
    "mistakes": [
        (MISTAKES, "bert.attention/no_scale"),
        (MISTAKES, "optimizer.step/betas_swapped"),
        (MISTAKES, "bert.embed/positions_from_the_end"),
    ],
}


def files_of(answers):
    files = dict(FILES)
    for folder, name in answers:
        answer = read(folder, name)
        files[answer.task.file] = put(answer, source=files.get(answer.task.file, ""))
    return files


def questions_of(*arguments, **options):
    return made_of(*arguments, **options)["questions"]


def made_of(files, tmp_path, seed, count, tasks=PART_1, room=1e9):
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return quiz_of(tmp_path, seed, count, tasks, room)


@pytest.mark.parametrize("group", GROUPS)
def test_exactly_the_key_is_true_when_all_is_run_in_another_way(group, tmp_path):
    files = files_of(GROUPS[group])
    questions = questions_of(files, tmp_path, group, 16)
    assert len(questions) == 16
    kinds = {q["kind"] for q in questions}
    assert kinds >= {"shape", "sums", "chance", "change", "property", "error"}
    for q in questions:
        assert verdicts(files, q) == [i == q["key"] for i in range(4)], q


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        (VARIANTS, "classifier.init/parameter_by_parameter"),
        (MISTAKES, "classifier.init/options_swapped"),
        (VARIANTS, "multitask/plain"),
        (VARIANTS, "multitask/separate_encoders"),
        (MISTAKES, "multitask.init/bert_not_frozen"),
    ],
)
def test_which_parameters_get_a_gradient_holds_for_all_tasks_and_options(folder, name, tmp_path):
    """Also of mistakes, and with lines changed; every task of the file is asked about."""
    files = files_of([(folder, name)])
    tasks = MODELS[read(folder, name).task.file]
    questions = questions_of(files, tmp_path, name, 4 * len(tasks), tasks)
    assert {(q["kind"], q["task"]) for q in questions} == {("gradient", task) for task in tasks}
    assert any(q["text"].startswith("Suppose line") for q in questions)
    for option in ("pretrain", "finetune"):
        assert any(f"option='{option}'" in q["text"] for q in questions)
    for q in questions:
        assert verdicts(files, q) == [i == q["key"] for i in range(4)], q


def test_nothing_is_asked_that_functions_decide_which_are_not_shown(tmp_path):
    """A helper that computes the step; parts of BERT that a mistake elsewhere leaves out."""
    files = files_of([(VARIANTS, "optimizer.step/torchs_kernel")])
    assert "number" not in {q["kind"] for q in questions_of(files, tmp_path, "1", 8, ("1.5",))}
    files = files_of([(MISTAKES, "bert.layer/attention_not_added")])
    questions = questions_of(files, tmp_path, "1", 4, ("1.6",))
    assert questions
    assert not any(".attention_" in q["options"][q["key"]] for q in questions)


# ---------------------------------------------------------------------------------------------
# Pages and files


HOSTILE = (
    "%50%</pre><script>alert(1)</script> ]]> &amp; }\n~%100%= # : \\n \\} \x1b[31m \u202e "
    "{=x} ::a:: \n\n//x -> y=z ~{d: {1: '#'}}"
)
SHOWN = (  # of HOSTILE, on one line
    "%50%</pre><script>alert(1)</script> ]]> &amp; } ~%100%= # : \\n \\} {=x} ::a:: "
    "//x -> y=z ~{d: {1: '#'}}"
)
CODE = "def f(x):  # a\n    return {'a~b': x[:1], \"c\": \"\\\\n\"} != '</pre>]]>' == ~x  # {: %\n"


def sheet_of(text=HOSTILE, group="g-1"):
    source = CODE + f"    '{text}'\n"
    question = {
        "kind": "shape", "level": "easy", "task": "1.2", "file": "bert.py", "lines": [1, 5, 0, 0],
        "text": f"`a` {text}?", "options": [f"{text} {i}" for i in range(4)],
        "executed": [text] * 4, "key": 2, "why": text,
    }  # fmt: skip
    submission = Submission(group, 1, {"bert.py": source.encode()})
    return sheets.Sheet(submission, [question, {**question, "key": 0}], [])


def read_gift(text):
    """Questions by the rules of GIFT's documentation: category, title, text, answers, feedback."""
    category, questions = "", []
    for block in re.split(r"\n\s*\n", text.strip()):
        if block.startswith("$CATEGORY:"):
            category = block.removeprefix("$CATEGORY:").strip()
            continue
        parts = re.split(r"(?<!\\)((?:\\\\)*)(::|\{|\}|####|[=~])", block)
        # text, backslashes, sign, text, …: backslashes in pairs belong to the text before
        pieces = [parts[0]]
        for pairs, sign, rest in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            pieces[-1] += pairs
            pieces += [sign, rest]
        plain = [re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], p) for p in pieces]
        assert plain[:2] == ["", "::"]
        assert plain[3] == "::"
        assert plain[5] == "{"
        assert plain[-2] == "}"
        assert plain[4].startswith("[html]")
        signs, texts = plain[7:-2:2], [text.strip() for text in plain[8:-2:2]]
        assert signs[-1] == "####"
        assert not any(re.match(r"%-?\d{1,2}\.?\d*%", text) for text in texts[:-1])  # a weight
        assert not any(line.strip().startswith("//") for line in block.splitlines())  # a comment
        answers = list(zip(signs[:-1], texts[:-1], strict=True))
        entry = SimpleNamespace(category=category, title=plain[2], text=plain[4][6:])
        entry.answers, entry.feedback = answers, texts[-1]
        questions.append(entry)
    return questions


def shown(text):
    """An HTML text as it is shown."""
    assert not re.search("<(?!/?(p|pre|code)>)", text)
    return html.unescape(re.sub("<[^>]+>", "", text))


GROUPS_READ_BACK = ("g-1", "समूह-१_क्षि", 'o\'brien "x" & <y> = {#:~}')


@pytest.mark.parametrize("group", GROUPS_READ_BACK)
def test_gift_is_read_back_as_it_was(group):
    first, second, third, _ = read_gift(
        sheets.gift([sheet_of(group=group), sheet_of("plain", "g-2")])
    )
    assert [q.category for q in (first, second, third)] == [f"viva/{group}"] * 2 + ["viva/g-2"]
    assert [q.title for q in (first, second)] == [f"{group} 1 (easy)", f"{group} 2 (easy)"]
    for question, key in ((first, 2), (second, 0)):
        assert [sign for sign, _ in question.answers] == [
            "=" if i == key else "~" for i in range(4)
        ]
        assert [shown(text) for _, text in question.answers] == [f"{SHOWN} {i}" for i in range(4)]
        assert shown(question.feedback) == SHOWN
        assert shown(question.text).endswith(f"a {SHOWN}?")
    listed = [f"{number:4}  {line}" for number, line in enumerate(CODE.splitlines(), start=1)]
    assert shown(first.text).splitlines()[:2] == listed


@pytest.mark.parametrize("group", GROUPS_READ_BACK)
def test_moodle_xml_is_read_back_as_it_was(group):
    text = sheets.moodle([sheet_of(group=group), sheets.Sheet(sheet_of().submission, [], [])])
    assert text.startswith("<?xml")
    assert not set(text) & {"\x1b", "\u202e"}
    category, *entries = ElementTree.fromstring(text.encode())
    assert category.attrib == {"type": "category"}
    assert category.findtext("category/text") == f"$course$/viva/{group}"
    assert len(entries) == 2
    for number, (entry, key) in enumerate(zip(entries, (2, 0), strict=True), start=1):
        assert entry.attrib == {"type": "multichoice"}
        assert entry.findtext("single") == "true"
        assert entry.findtext("name/text") == f"{group} {number} (easy)"
        answers = entry.findall("answer")
        assert [a.get("fraction") for a in answers] == [
            "100" if i == key else "0" for i in range(4)
        ]
        assert [shown(a.findtext("text")) for a in answers] == [f"{SHOWN} {i}" for i in range(4)]
        parts = [*answers, entry.find("questiontext"), entry.find("generalfeedback")]
        assert all(part.get("format") == "html" for part in parts)
        assert shown(entry.findtext("generalfeedback/text")) == SHOWN
        code, asked = entry.findtext("questiontext/text").split("</pre>")
        assert shown(code).splitlines()[1] == f"   2  {CODE.splitlines()[1]}"
        assert shown(asked) == f"a {SHOWN}?"


def test_pages_show_code_and_only_the_keys_page_shows_keys(tmp_path):
    sheets.write_pages(tmp_path, sheet_of(), asked=5)
    plain, keys = (
        (tmp_path / folder / "g-1.html").read_text(encoding="utf-8")
        for folder in ("sheets", "keys")
    )
    for page in (plain, keys):
        body = page.partition("<body>")[2].rpartition("<script>")[0]
        assert "<script" not in body
        assert "&lt;script&gt;" in body
        assert "2 of 5 questions" in body
        assert "   1  def f(x):" in body
    assert 'class="right"' in keys
    assert 'class="right"' not in plain


LONG = "optimizer.step/in_place"


@pytest.mark.parametrize("answers", [GROUPS["mistakes"], [(VARIANTS, LONG)]], ids=["short", "long"])
def test_five_questions_are_printed_on_one_page(browser, tmp_path, answers):
    files = files_of(answers)
    if LONG in answers[0]:  # a comment at each line: it still fits
        files = {
            name: re.sub(r"(?m)^( {8,}\S.*)$", r"\1  # as it says", t) for name, t in files.items()
        }
    questions = questions_of(files, tmp_path, "page", 5, PART_1, room=viva.ROWS)
    assert len(questions) == 5
    submission = Submission("g", 1, {name: text.encode() for name, text in files.items()})
    sheets.write_pages(tmp_path, sheets.Sheet(submission, questions, []), asked=5)
    for folder in ("sheets", "keys"):
        browser.open(tmp_path / folder / "g.html")
        printed = browser("Page.printToPDF", preferCSSPageSize=True)["data"]
        assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed))) == 1


def test_a_function_that_leaves_no_room_is_left_out(tmp_path):
    old = "                parameter.addcdiv_("
    longer = FILES["optimizer.py"].replace(old, "                float(1)\n" * 70 + old)
    made = made_of({**FILES, "optimizer.py": longer}, tmp_path, "page", 5, room=viva.ROWS)
    assert made["notes"] == ["Task 1.5 · AdamW.step is left out: it is too long for the page"]
    assert len(made["questions"]) == 5
    assert "1.5" not in {q["task"] for q in made["questions"]}


# ---------------------------------------------------------------------------------------------
# What comes back


GOOD = sheet_of("x").questions[0] | {"options": ["1", "2", "3", "4"]}


@pytest.mark.parametrize(
    "change",
    [
        {"key": 4}, {"key": True}, {"key": "2"}, {"options": ["1", "1", "3", "4"]},
        {"options": "1234"}, {"options": ["1", "2", "3", 4]}, {"executed": []},
        {"text": "x" * 2000}, {"text": ""}, {"why": None}, {"level": "hard"}, {"kind": ["shape"]},
        {"task": "1.5"}, {"file": "../keys/g-2.html"}, {"file": "optimizer.py"},
        {"lines": [1, 9999, 0, 0]}, {"lines": [0, 1, 0, 0]}, {"lines": [1, 2, 0]},
        {"lines": [1, 2.0, 0, 0]},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_question_is_not_taken(change):
    submission = sheet_of().submission
    assert viva.is_question(GOOD, submission)
    assert not viva.is_question(GOOD | change, submission)


@pytest.mark.parametrize("answer", [b"", b"[]", b"{", b"[" * 9000, b'{"questions": 1}', b"\xff"])
def test_what_is_no_answer_is_not_read(answer):
    numbers = torch.tensor(list(answer), dtype=torch.uint8)
    assert viva.read_answer(numbers) is None
    assert viva.read_answer(None) is None
    assert viva.read_answer(torch.ones(3)) is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere", "--seed", "1", "--out", "new"], "nowhere is neither a zip nor a folder"),
        ([".", "--seed", "1", "--out", "new"], "holds no submission"),
        ([".", "--seed", "-1", "--out", "new"], "--seed"),
        ([".", "--out", "new"], "--seed"),
        ([".", "--seed", "1", "--questions", "0", "--out", "new"], "--questions"),
        ([".", "--seed", "1", "--questions", "21", "--out", "new"], "--questions 21"),
        ([".", "--seed", "1", "--out", "full"], "full is there already"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_one_line(run_script_here, tmp_path, arguments, says):
    if "full" in arguments:
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "a").touch()
    ended = run_script_here(viva, *arguments)
    assert ended.code in (1, 2)
    assert not ended.out
    assert len(ended.err.splitlines()) == 1
    assert says in ended.err


def test_seconds_are_of_the_processor_and_the_clock_has_ten_times_as_many(
    run_script_here, tmp_path, monkeypatch
):
    """Else a group would have no questions where the machine is busy."""
    opened = []

    def open_nothing(part, secret, limits, seconds, isolation):
        opened.append((limits.cpu_s, seconds, limits.wall_s > seconds))
        raise InputError("enough")

    monkeypatch.setattr(viva, "open_context", open_nothing)
    (tmp_path / "submissions" / "a").mkdir(parents=True)
    (tmp_path / "submissions" / "a" / "bert.py").write_text("x = 1\n", encoding="utf-8")
    line = ["submissions", "--seed", "1", "--out", "out", "--seconds", "6.5"]
    assert "enough" in run_script_here(viva, *line).err
    assert opened == [(7, 65.0, True)]


# ---------------------------------------------------------------------------------------------
# In the sandbox


FORGED = """
import json, types
from checks.quiz import generate
def dumps(*_):
    q = {"kind": "shape", "level": "easy", "task": "1.2", "file": "bert.py", "lines": [1, 2, 0, 0],
         "text": "</pre><script>x</script>" , "options": %s, "executed": ["1"] * 4, "key": 0,
         "why": "x"}
    return json.dumps({"questions": [q] * 99, "notes": ["</p><script>y</script>"] * 99})
generate.json = types.SimpleNamespace(dumps=dumps)
"""
ATTACKS = {
    "loop": (
        "while True: pass",
        0,
        "it did not end within the time limit, and was stopped (--seconds 4)",
    ),
    "exit": ("import os; os._exit(0)", 0, "the program ended before it gave an answer"),
    "leave": ("raise SystemExit", None, "is left out"),
    "flood": ("import sys\nfor _ in range(10**6): print('x' * 1000, file=sys.stderr)", None, None),
    "forged": (FORGED % '["1", "2", "3", "4"]', 5, None),
    "forged badly": (FORGED % '["1", "1"]', 0, "what its code gave back are no questions"),
    "huge": (
        "import types\nfrom checks.quiz import generate\n"
        "generate.json = types.SimpleNamespace(dumps=lambda *_: '[' * 10**7)",
        0,
        "what its code gave back are no questions",
    ),
    "writer": (
        "import pathlib\nfor name in ('{stage}/handout/bert.py', '{out}/x', '/tmp/x'):\n"
        "    try: pathlib.Path(name).write_text('x')\n    except OSError: pass",
        5,
        None,
    ),
}


@needs_sandbox
@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_submissions_harm_only_themselves(attack, tmp_path):
    code, count, says = ATTACKS[attack]
    limits = Limits(cpu_s=4) if attack == "loop" else None
    with open_context(1, "", limits, seconds=120.0) as context:
        code = code.replace("{stage}", str(context.stage)).replace("{out}", str(tmp_path))
        hostile = {name: text.encode() for name, text in FILES.items()}
        hostile["bert.py"] += f"\n{code}\n".encode()
        before = {p: p.read_bytes() for p in context.stage.rglob("*.py")}
        sheet = viva.questions_for(context, Submission("evil", 1, hostile), "7", 5)
        assert before == {p: p.read_bytes() for p in context.stage.rglob("*.py")}
    assert count is None or len(sheet.questions) == count, sheet.notes
    assert says is None or any(says in note for note in sheet.notes)
    assert [*tmp_path.iterdir()] == []
    sheets.write_pages(tmp_path, sheet, asked=5)
    for page in tmp_path.rglob("*.html"):
        body = page.read_text(encoding="utf-8").partition("<body>")[2].rpartition("<script>")[0]
        assert "<script" not in body


@needs_sandbox
def test_two_groups_with_the_same_code_get_different_pages(run_script_here, tmp_path):
    for group in ("a", "b", "stubs"):
        folder = tmp_path / "submissions" / group
        folder.mkdir(parents=True)
        for name, text in FILES.items():
            (folder / name).write_text(text if group != "stubs" else "x = 1\n", encoding="utf-8")
    ended = run_script_here(
        viva, "submissions", "--questions", "3", "--seed", "7", "--out", "out", "-j", "2"
    )
    assert ended.code == 1
    assert "a: 3 questions" in ended.out
    assert "stubs: 0 questions" in ended.out
    assert "is left out" in ended.out
    read_back = read_gift((tmp_path / "out" / "questions.gift").read_text(encoding="utf-8"))
    made = {(q.category, q.text, *(option for _, option in q.answers)) for q in read_back}
    assert len(made) == 6
    assert len({question[1] for question in made}) == 6
    assert len(ElementTree.parse(tmp_path / "out" / "moodle.xml").getroot()) == 8
    assert {p.name for p in (tmp_path / "out" / "keys").iterdir()} == {
        "a.html",
        "b.html",
        "stubs.html",
    }
