"""The leaderboard and the pages it shares with the reports (leaderboard.py, output.py)."""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_results import prediction, rows_in
from made_results import result as raw_result
from markupsafe import escape

from course.grading.judging import predictions
from course.grading.judging.predictions import Gold
from course.grading.pages import leaderboard, pseudonyms, ranking
from course.grading.pages.leaderboard import (
    add_to_history,
    counts_on_test,
    figures,
    read_history,
    scores_of,
    standings,
)
from course.grading.pages.output import SCRIPT, Column, clean, csv_cell, page, policy_hash, table

ONE = {"attempts": 1, "exceptions": {}}
COURSE = {"course": {"name": "minBERT", "term": "Winter"}, "leaderboard": ONE}


def result(student, sst=0.5, para=0.7, sts=0.6, sha256="1", split="test", **more) -> dict:
    """A submission of part 2."""
    scores = {"sst": sst, "para": para, "sts": sts}
    entries = [prediction(split, v, data, option="", **more) for data, v in scores.items()]
    return raw_result(student, (), entries, part=2, sha256=sha256)


def history_of(path, *results) -> list[dict]:
    """Each result was handed in an hour after the one before."""
    for hour, submission in enumerate(results):
        add_to_history(path, [submission], {submission["student"]: 3600.0 * hour})
    return read_history(path)


@pytest.fixture
def history(tmp_path):
    return tmp_path / "out" / "history.jsonl"


# ---------------------------------------------------------------------------------------------
# Scores and ranks


def test_overall_is_the_contract_s_and_the_mean_that_of_older_years():
    row = figures(scores_of(result("a", 0.5, 0.7, -0.2)), 2, "test", "value")
    assert row["overall"] == pytest.approx((0.5 + 0.7 + 0.4) / 3)
    assert row["mean"] == pytest.approx((0.5 + 0.7 - 0.2) / 3)
    row = figures(scores_of(result("a", sst=None)), 2, "test", "value")
    assert (row["overall"], row["mean"], row["sst"], row["para"]) == (None, None, None, 0.7)


def test_ties_share_a_rank_in_the_order_of_pseudonyms_and_the_missing_have_none(history):
    scores = {"d": 0.1, "c": 0.5, "b": 0.5004, "a": 0.9, "e": None}
    results = [result(name, sst) for name, sst in scores.items()]
    for each in results:
        each["predictions"] += result("", scores[each["student"]], split="dev")["predictions"]
    for view in ("value", "dev"):
        for names, tied in (({}, ["b", "c"]), ({"b": "Red Owl", "c": "Fox"}, ["Fox", "Red Owl"])):
            seen = history_of(history, *results)
            rows = standings(results, seen, 2, view, ONE, names=names)
            ranks = [(1, "a"), *((2, name) for name in tied), (4, "d"), (None, "e")]
            assert [(row["rank"], row["student"]) for row in rows] == ranks


def test_halves_dev_and_test_stay_apart(history):
    graded = result("a", public=0.4, private=0.2)
    graded["predictions"] += result("a", 0.9, 0.9, 0.8, split="dev")["predictions"]
    failed = [result("b") | {"status": status} for status in ("refused", "staff error")]
    seen = history_of(history, graded, *failed)
    shown = {
        view: [row["sst"] for row in standings([graded, *failed], seen, 2, view, ONE)]
        for view in ("public", "private", "value", "dev")
    }
    assert shown == {"public": [0.4], "private": [0.2], "value": [0.5], "dev": [0.9]}


# ---------------------------------------------------------------------------------------------
# History, and what counts


def test_history_grows_by_each_submission_once(history):
    first, second = result("a"), result("a", 0.6, sha256="2")
    add_to_history(history, [first], {"a": 0.0})
    before = history.read_bytes()
    add_to_history(history, [first, first], {"a": 50.0})
    assert history.read_bytes() == before
    seen = add_to_history(history, [second, result("b")], {"a": 60.0, "b": 0.0})
    assert history.read_bytes().startswith(before)
    assert read_history(history) == seen
    assert [(s["student"], s["sha256"]) for s in seen] == [("a", "1"), ("a", "2"), ("b", "1")]
    assert seen[1]["time"] == "1970-01-01T00:01:00+00:00"
    assert seen[1]["scores"]["sst-test"] == {"public": 0.6, "private": 0.6, "value": 0.6}
    # a line that was broken off is written again
    history.write_bytes(history.read_bytes()[:-30] + b"\n[]\n3\n\0\n")
    assert [s["student"] for s in read_history(history)] == ["a", "a"]
    add_to_history(history, [result("b"), result("c")], {"b": 1.0, "c": 1.0})
    assert [s["student"] for s in read_history(history)] == ["a", "a", "b", "c"]


def test_only_the_first_submissions_count_on_test(history):
    versions = [result("a", value, sha256=str(value)) for value in (0.1, 0.2, 0.3)]
    versions[2]["predictions"] += result("a", 0.9, split="dev")["predictions"]
    seen = history_of(history, *versions)
    now = versions[2]
    for board, value, note in (
        (ONE, 0.1, "1 of 3; later ones: dev"),
        ({"attempts": 1, "exceptions": {"a": 2}}, 0.2, "2 of 3; later ones: dev"),
        ({"attempts": 3, "exceptions": {}}, 0.3, ""),
        ({"attempts": 3, "exceptions": {"a": 0}}, None, ""),
    ):
        (row,) = standings([now], seen, 2, "public", board)
        assert (row["sst"], row["note"]) == (value, note), board
        assert standings([now], seen, 2, "dev", board)[0]["sst"] == 0.9
        assert counts_on_test(now, seen, board) == (value == 0.3)


def test_which_submissions_use_up_an_attempt(history):
    """The earliest with a test score; graded again, its scores are replaced."""
    faulty, early, late = result("a", None, None, None, "0"), result("a", 0.2), result("a", 0.1)
    faulty["predictions"] += result("a", split="dev")["predictions"]
    late["sha256"] = "late"
    for submission, time in ((late, 9000.0), (faulty, 5.0), (early, 10.0)):
        seen = add_to_history(history, [submission], {"a": time})
    assert standings([late], seen, 2, "public", ONE)[0]["sst"] == 0.2
    assert standings([result("a", 0.6)], seen, 2, "public", ONE)[0]["sst"] == 0.6
    assert counts_on_test(early, seen, ONE)
    assert not counts_on_test(late, seen, ONE)


# ---------------------------------------------------------------------------------------------
# Ranks with intervals, pseudonyms


def labels(data: str, rows: int = 1000) -> Gold:
    """Made labels; every second row is public."""
    chance = np.random.default_rng(len(data))
    classes = predictions.SETS[data][3]
    made = chance.integers(classes, size=rows) if classes else chance.random(rows)
    ids = tuple(map(str, range(rows)))
    return Gold(f"{data}.csv", data, "test", "", classes, ids, made, np.arange(rows) % 2 == 0)


def right_in(gold: Gold, wrong: Sequence[int]) -> dict:
    """An entry of predictions that are right but in some rows."""
    values = gold.labels.copy()
    values[list(wrong)] = (values[list(wrong)] + 1) % (gold.classes or 2)
    measured = predictions.measure(values, gold)
    return prediction("test", data=gold.data, predicted=predictions.packed(values, gold)) | measured


def test_scores_that_chance_may_exchange_share_their_places(history):
    gold = labels("sst")
    wrong = {  # accuracy 0.512, 0.514 with others wrong, 0.400, 0.990
        "a": range(488),
        "b": range(400, 886),
        "c": range(600),
        "d": range(10),
    }
    results = [raw_result(name, (), [right_in(gold, rows)]) for name, rows in wrong.items()]
    seen = history_of(history, *results)
    rows = standings(results, seen, 1, "value", ONE, {("sst", "test"): gold})
    shown = [(row["student"], row["places"], row["rank"]) for row in rows]
    assert shown == [("d", "1", 1), ("b", "2–3", 2), ("a", "2–3", 3), ("c", "4", 4)]
    plain = standings(results, seen, 1, "value", ONE)
    assert [row["places"] for row in plain] == [1, 2, 3, 4]


def test_the_resampled_metrics_are_those_of_the_rows_drawn():
    for data in ("sst", "sts"):
        gold = labels(data, 60)
        values = np.random.default_rng(0).permutation(gold.labels)[None].astype(float)
        public = gold.labels[gold.public]
        samples = ranking.resampled(values[:, gold.public], public, gold.classes)  # (1, R)
        assert samples.shape == (1, predictions.RESAMPLES)
        exact = predictions.measure(values[0], gold)["public"]
        assert samples.mean() == pytest.approx(exact, abs=0.02)
    whole = {(name, "test"): labels(name, 60) for name in ("sst", "para", "sts")}
    entries = {f"{name}-test": right_in(gold, range(5)) for (name, _), gold in whole.items()}
    assert ranking.places_of([entries, entries], 2, "private", whole) == {0: (1, 2), 1: (1, 2)}
    assert ranking.places_of([entries, {}], 2, "value", whole) == {0: (1, 1)}
    for other in (None, labels("sst", 61)):  # no labels, other labels since then
        assert ranking.places_of([entries], 2, "value", whole | {("sst", "test"): other}) == {}


def test_pseudonyms_stay_and_tell_nobody(tmp_path):
    first = pseudonyms.names_of(tmp_path, ["a", "b"], "secret")
    more = pseudonyms.names_of(tmp_path, map(str, range(300)), "secret")
    assert {name: more[name] for name in first} == first
    assert len(set(more.values())) == 302
    assert pseudonyms.names_of(tmp_path, ["a"], "another secret")["a"] == first["a"]
    assert pseudonyms.names_of(tmp_path / "new", ["a"], "another secret")["a"] != first["a"]


# ---------------------------------------------------------------------------------------------
# Text, CSV


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("\x1b]0;title\x07a\x1b]8;;http://evil\x1b\\b", "ab"),
        ("\x9b31mred\x9d0;title\x9cb", "redb"),
        ("a\u202egpj.exe\u2066b\u200bc\ufeff", "agpj.exebc"),
        ("a\rb\r\nc\td\0e\x08", "a b c de"),
        ("\ud800x\ue000\uffff", "x"),
        ("é 中 ∑", "é 中 ∑"),
        ("x" * 400, "x" * 298 + " …"),
    ],
)
def test_clean_takes_out_what_acts_and_keeps_what_is_read(text, kept):
    assert clean(text) == kept


@given(st.text())
def test_clean_leaves_printable_text_within_the_limit(text):
    shown = clean(text, 40)
    assert shown.isprintable()
    assert len(shown) <= 40
    assert clean(shown, 40) == shown


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+a", "'+a"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'=1"),
        (" =1", "'=1"),
        ("bert.py:3 x = 1; =cmd()", "bert.py:3 x = 1; '=cmd()"),
        ('a;"+b', "a;\"'+b"),
        ("a;b; c=1", "a;b; c=1"),
        ("\u200b=1", "'=1"),
        ("＝1", "'＝1"),
        ("1234_group", "1234_group"),
        (-0.25, "-0.25"),
        (None, ""),
    ],
)
def test_no_cell_is_a_formula(value, cell):
    assert csv_cell(value) == cell


# ---------------------------------------------------------------------------------------------
# Pages


def test_students_see_neither_names_nor_the_private_half(tmp_path):
    results = [result("=HYPERLINK(1)", 0.5, public=0.3, private=0.1), result("1235_young", 0.5)]
    names = {"=HYPERLINK(1)": "=Ruby", "1235_young": "Amber Vole"}
    times = {"=HYPERLINK(1)": 0.0, "1235_young": 1.0}
    assert leaderboard.write_all(tmp_path, results, COURSE, times, names) == {*names}
    results[1] = result("1235_young", 0.9, sha256="2")
    times["1235_young"] = 9.0
    assert leaderboard.write_all(tmp_path, results, COURSE, times, names) == {"=HYPERLINK(1)"}
    rows = rows_in(tmp_path / "leaderboard.csv")
    public = [row for row in rows if row["table"] == "Test, public half"]
    shown = {row["student"]: (row["sst"], row["note"]) for row in public}
    assert shown == {"'=Ruby": ("0.3", ""), "Amber Vole": ("0.5", "1 of 2; later ones: dev")}
    page_text = (tmp_path / "leaderboard.html").read_text()
    for text in ((tmp_path / "leaderboard.csv").read_text(), page_text):
        assert not re.search("young|HYPERLINK|rivate|0\\.1|0\\.9", text)
    staff = (tmp_path / "staff-leaderboard.csv").read_text()
    assert all(word in staff for word in ("1235_young", "Test, private half", "Test, all rows"))
    assert not re.search(r"(src|href|action)\s*=|https?://|@import|url\(", page_text)
    assert not re.search(r" (style|on\w+)=", page_text)  # which the policy would forbid
    assert f"script-src {policy_hash(SCRIPT)};" in page_text
    assert "default-src 'none'" in page_text


EVIL = '<script>document.title="owned"</script>'
EVENT = '"><img src=x onerror=\'document.title="owned"\'>'


def test_names_are_escaped():
    shown = str(table([Column("a", "A<b>")], [{"a": EVIL}, {"a": EVENT}], "T<i>"))
    shown += page(EVIL, EVIL, [(EVIL, EVENT, "")])
    inside = re.sub(r"<script>function.*?</script>", "", shown, flags=re.S)
    assert not re.search("<script|<img|<b>|<i>", inside)
    assert str(escape(EVIL)) in inside


SORTED = """(() => {
const heads = document.querySelectorAll("th button");
return [1, 3, 3].map(at => { heads[at].click();
  return Array.from(document.querySelectorAll("tbody")[0].rows, row => row.cells[1].textContent)
    .join(" "); }).join("|") + "|" + document.title;
})()"""


def test_a_click_on_a_header_sorts_and_no_name_runs(browser, tmp_path):
    scores = {"b": 0.9, "a10": 0.1, "a9": 0.5, "c": None, EVIL: 0.05}
    results = [result(name, sst) for name, sst in scores.items()]
    leaderboard.write_all(tmp_path, results, COURSE, dict.fromkeys(scores, 0.0), {})
    file = tmp_path / "leaderboard.html"
    browser.open(file)
    *orders, title = browser.eval(SORTED).replace(EVIL, "evil").split("|")
    # by name; by SST, the largest first; the smallest first: what is missing stays last
    assert orders == ["evil a9 a10 b c", "b a9 a10 evil c", "evil a10 a9 b c"]
    assert title == "minBERT: leaderboard"
    # besides the escaping: a script that got in would not run
    raw = file.read_text().replace("<tbody>", f"<tbody><tr><td>{EVIL}{EVENT}</td></tr>")
    open_page = re.sub(r"<meta http-equiv[^>]*>", "", raw)
    for text, title in ((raw, "minBERT: leaderboard"), (open_page, "owned")):
        file.write_text(text, encoding="utf-8")
        browser.open(file)
        assert browser.eval("document.title") == title
