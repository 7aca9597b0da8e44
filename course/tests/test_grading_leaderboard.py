"""The leaderboard and the pages it shares with the reports (leaderboard.py, output.py)."""

import csv
import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
    write,
)
from course.grading.pages.output import SCRIPT, Column, clean, csv_cell, page, policy_hash, table

ONE = {"attempts": 1, "exceptions": {}}
COURSE = {"course": {"name": "minBERT", "term": "Winter"}, "leaderboard": ONE}


def entry(data, split, value, option="", public=None, private=None) -> dict:
    halves = {
        "public": value if public is None else public,
        "private": value if private is None else private,
    }
    return {"data": data, "split": split, "option": option, "value": value, **halves}


def result(student, sst=0.5, para=0.7, sts=0.6, sha256="1", split="test", **more) -> dict:
    scores = {"sst": sst, "para": para, "sts": sts}
    entries = [entry(data, split, value, **more) for data, value in scores.items()]
    return {
        "student": student,
        "part": 2,
        "sha256": sha256,
        "status": "graded",
        "predictions": entries,
    }


def history_of(path, *results) -> list[dict]:
    """Each result was handed in an hour after the one before."""
    for hour, one in enumerate(results):
        add_to_history(path, [one], {one["student"]: 3600.0 * hour})
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


def test_part_1_has_a_column_for_each_option_and_data_set():
    one = result("a") | {
        "part": 1,
        "predictions": [
            entry("sst", "dev", 0.39, "pretrain"),
            entry("sst", "dev", 0.51, "finetune"),
            entry("cfimdb", "dev", 0.96, "finetune"),
            entry("sst", "test", 0.52, "finetune"),
        ],
    }
    (row,) = standings([one], [], 1, "dev", ONE)
    assert row["finetune-sst"] == 0.51
    assert row["pretrain-sst"] == 0.39
    assert row["finetune-cfimdb"] == 0.96
    assert row["pretrain-cfimdb"] is None
    assert row["rank"] == 1


def test_ties_share_a_rank_and_the_missing_have_none(history):
    found = [
        result("d", 0.1),
        result("c", 0.5),
        result("b", 0.5004),
        result("a", 0.9),
        result("e", None),
    ]
    rows = standings(found, history_of(history, *found), 2, "value", ONE)
    assert [(row["rank"], row["student"]) for row in rows] == [
        (1, "a"),
        (2, "b"),
        (2, "c"),
        (4, "d"),
        (None, "e"),
    ]


def test_halves_dev_and_test_stay_apart(history):
    one = result("a", public=0.4, private=0.2)
    one["predictions"] += result("a", 0.9, 0.9, 0.8, split="dev")["predictions"]
    seen = history_of(history, one)
    shown = {
        view: standings([one], seen, 2, view, ONE)[0]["sst"]
        for view in ("public", "private", "value", "dev")
    }
    assert shown == {"public": 0.4, "private": 0.2, "value": 0.5, "dev": 0.9}


@pytest.mark.parametrize("status", ["refused", "staff error"])
def test_what_was_not_graded_is_in_no_table(history, status):
    one = result("a") | {"status": status}
    assert history_of(history, one) == []
    assert standings([one], [], 2, "public", ONE) == []


# ---------------------------------------------------------------------------------------------
# History, and what counts


def test_history_grows_by_each_submission_once(history):
    first, second = result("a"), result("a", 0.6, sha256="2")
    assert add_to_history(history, [first], {"a": 0.0}) == 1
    before = history.read_bytes()
    assert add_to_history(history, [first, first], {"a": 50.0}) == 0
    assert history.read_bytes() == before
    assert add_to_history(history, [second, result("b")], {"a": 60.0, "b": 0.0}) == 2
    assert history.read_bytes().startswith(before)
    kept = read_history(history)
    assert [(one["student"], one["sha256"]) for one in kept] == [("a", "1"), ("a", "2"), ("b", "1")]
    assert kept[1]["time"] == "1970-01-01T00:01:00+00:00"
    assert kept[1]["scores"]["sst-test"] == {"public": 0.6, "private": 0.6, "value": 0.6}


def test_a_line_broken_off_is_written_again(history):
    history_of(history, result("a"), result("b"))
    history.write_bytes(history.read_bytes()[:-30] + b"\n[]\n3\n\0\n")
    assert [one["student"] for one in read_history(history)] == ["a"]
    assert add_to_history(history, [result("b"), result("c")], {"b": 1.0, "c": 1.0}) == 2
    assert [one["student"] for one in read_history(history)] == ["a", "b", "c"]


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


def test_the_time_decides_not_the_order_of_grading(history):
    late, early = result("a", 0.1, sha256="late"), result("a", 0.2, sha256="early")
    add_to_history(history, [late], {"a": 9000.0})
    add_to_history(history, [early], {"a": 10.0})
    (row,) = standings([late], read_history(history), 2, "public", ONE)
    assert row["sst"] == 0.2


def test_without_a_test_score_nothing_is_used_up(history):
    faulty, good = result("a", None, None, None, sha256="0"), result("a", 0.4)
    faulty["predictions"] += result("a", split="dev")["predictions"]
    seen = history_of(history, faulty, good)
    assert counts_on_test(good, seen, ONE)
    assert standings([good], seen, 2, "public", ONE)[0]["sst"] == 0.4
    regraded = result("a", 0.6)  # of the same file: it replaces the scores that history holds
    assert standings([regraded], seen, 2, "public", ONE)[0]["sst"] == 0.6


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
    entry = {"data": gold.data, "split": "test", "predicted": predictions.packed(values, gold)}
    return entry | {"option": "finetune", **predictions.measure(values, b"", gold)}


def with_wrong(student: str, gold: Gold, wrong: Sequence[int]) -> dict:
    return result(student) | {"part": 1, "predictions": [right_in(gold, wrong)]}


def test_scores_that_chance_may_exchange_share_their_places(history):
    gold = labels("sst")
    found = [
        with_wrong("a", gold, range(488)),  # 0.512
        with_wrong("b", gold, range(400, 886)),  # 0.514: wrong elsewhere
        with_wrong("c", gold, range(600)),  # 0.400
        with_wrong("d", gold, range(10)),
    ]
    seen = history_of(history, *found)
    rows = standings(found, seen, 1, "value", ONE, {("sst", "test"): gold})
    shown = [(row["student"], row["places"], row["rank"]) for row in rows]
    assert shown == [("d", "1", 1), ("b", "2–3", 2), ("a", "2–3", 3), ("c", "4", 4)]
    plain = standings(found, seen, 1, "value", ONE)
    assert [row["places"] for row in plain] == [1, 2, 3, 4]


def test_the_bootstrap_is_paired(history):
    """Whoever is right wherever another one is, and in a few rows more, is ahead."""
    gold = labels("sst")
    found = [with_wrong("a", gold, range(488)), with_wrong("b", gold, range(470))]
    seen = history_of(history, *found)
    rows = standings(found, seen, 1, "value", ONE, {("sst", "test"): gold})
    assert [(row["student"], row["places"]) for row in rows] == [("b", "1"), ("a", "2")]


def test_the_resampled_metrics_are_those_of_the_rows_drawn():
    for data in ("sst", "sts"):
        gold = labels(data, 60)
        values = np.random.default_rng(0).permutation(gold.labels)[None].astype(float)
        public = gold.labels[gold.public]
        found = ranking.resampled(values[:, gold.public], public, gold.classes)  # (1, R)
        assert found.shape == (1, predictions.RESAMPLES)
        exact = predictions.measure(values[0], b"", gold)["public"]
        assert found.mean() == pytest.approx(exact, abs=0.02)
    whole = {name: labels(name, 60) for name in ("sst", "para", "sts")}
    entries = {f"{name}-test": right_in(gold, range(5)) for name, gold in whole.items()}
    given = {(name, "test"): gold for name, gold in whole.items()}
    assert ranking.places_of([entries, entries], 2, "private", given) == {0: (1, 2), 1: (1, 2)}
    assert ranking.places_of([entries, {}], 2, "value", given) == {0: (1, 1)}
    assert ranking.places_of([entries], 2, "value", given | {("sts", "test"): None}) == {}
    other = given | {("sst", "test"): labels("sst", 61)}  # other labels since then
    assert ranking.places_of([entries], 2, "value", other) == {}


def test_huge_similarities_are_packed_as_well():
    gold = labels("sts", 4)
    values = np.array([1e300, -1e300, 5e299, 0])
    assert predictions.unpacked(predictions.packed(values, gold), gold).tolist() == [1, -1, 0.5, 0]


def test_pseudonyms_stay_and_tell_nobody(tmp_path):
    first = pseudonyms.names_of(tmp_path, ["a", "b"], "secret")
    more = pseudonyms.names_of(tmp_path, map(str, range(300)), "secret")
    assert {name: more[name] for name in first} == first
    assert len(set(more.values())) == 302
    assert pseudonyms.names_of(tmp_path, ["a"], "another secret")["a"] == first["a"]
    assert pseudonyms.names_of(tmp_path / "new", ["a"], "another secret")["a"] != first["a"]


def test_the_public_page_has_pseudonyms_the_staff_s_has_names(tmp_path, history):
    found = [result("1234_smith_jones"), result("1235_young")]
    names = {"1234_smith_jones": "Ruby Heron", "1235_young": "Amber Vole"}
    write(tmp_path, found, history_of(history, *found), COURSE, names)
    for kind in ("html", "csv"):
        public = (tmp_path / f"leaderboard.{kind}").read_text()
        assert public.index("Amber Vole") < public.index("Ruby Heron")  # a tie, by these names
        assert "smith" not in public
        assert "1234_smith_jones" in (tmp_path / f"staff-leaderboard.{kind}").read_text()


# ---------------------------------------------------------------------------------------------
# Text, CSV


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("\x1b]0;title\x07a\x1b]8;;http://evil\x1b\\b", "ab"),
        ("\x9b31mred\x9d0;title\x9cb", "redb"),
        ("\x1b[2J\x1b[Hall gone\x1bc", "all gone"),
        ("a\u202egpj.exe\u2066b\u200bc\ufeff", "agpj.exebc"),
        ("a\rb\r\nc\td\0e\x08", "a b c de"),
        ("\ud800x\ue000\uffff", "x"),
        ("é 中 ∑", "é 中 ∑"),
        ("x" * 400, "x" * 298 + " …"),
    ],
)
def test_clean_takes_out_what_acts_and_keeps_what_is_read(text, kept):
    assert clean(text) == kept


def test_clean_keeps_lines_where_they_are_wanted():
    assert clean("  a\r\n    b\x1b[0m\n", lines=True) == "  a\n    b"


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
        ("-a", "'-a"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'=1"),
        ("\r\n=1", "'=1"),
        (" =1", "'=1"),
        ("\u200b=1", "'=1"),
        ("＝1", "'＝1"),
        ("1234_group", "1234_group"),
        (-0.25, "-0.25"),
        (None, ""),
    ],
)
def test_no_cell_is_a_formula(value, cell):
    assert csv_cell(value) == cell


def test_csv_files_hold_what_the_pages_show(tmp_path, history):
    found = [result("=HYPERLINK(1)", 0.5, public=0.3, private=0.1), result("b", None)]
    write(tmp_path, found, history_of(history, *found), COURSE, {})
    with open(tmp_path / "leaderboard.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["student"] for row in rows if row["table"] == "Test, public half"] == [
        "'=HYPERLINK(1)",
        "b",
    ]
    assert [row["sst"] for row in rows] == ["0.3", ""]
    text = (tmp_path / "leaderboard.csv").read_text() + (tmp_path / "leaderboard.html").read_text()
    assert "rivate" not in text
    assert "0.1" not in text
    staff = (tmp_path / "staff-leaderboard.csv").read_text()
    assert "Test, private half" in staff
    assert "Test, all rows" in staff


def test_everything_at_once_tells_who_may_see_test_scores(tmp_path):
    first, second = result("a", 0.5), result("b", 0.6)
    times = {"a": 0.0, "b": 1.0}
    assert leaderboard.write_all(tmp_path, [first, second], COURSE, times, {}) == {"a", "b"}
    again = result("a", 0.9, sha256="2")
    assert leaderboard.write_all(tmp_path, [again, second], COURSE, {"a": 9.0, "b": 1.0}, {}) == {
        "b"
    }
    text = (tmp_path / "leaderboard.html").read_text()
    assert "1 of 2; later ones: dev" in text
    assert "0.900" not in text


def test_both_parts_may_stand_on_one_page_and_neither(tmp_path, history):
    found = [result("a"), result("b") | {"part": 1}]
    found[1]["predictions"] = [entry("sst", "test", 0.5, "finetune")]
    write(tmp_path, found, history_of(history, *found), COURSE, {})
    shown = (tmp_path / "leaderboard.html").read_text()
    assert re.findall("<h2>(.*?)</h2>", shown) == [
        "Part 1: Test, public half",
        "Part 1: Dev, all rows",
        "Part 2: Test, public half",
        "Part 2: Dev, all rows",
    ]
    write(tmp_path, [], [], COURSE, {})
    assert "0 groups" in (tmp_path / "leaderboard.html").read_text()


# ---------------------------------------------------------------------------------------------
# Pages


def test_a_page_is_self_contained_and_lets_in_its_own_script_alone(tmp_path, history):
    write(tmp_path, [result("a")], history_of(history, result("a")), COURSE, {})
    text = (tmp_path / "leaderboard.html").read_text()
    assert not re.search(r"(src|href|action)\s*=|https?://|@import|url\(", text)
    assert re.search(r" (style|on\w+)=", text) is None  # which the policy would forbid
    assert f"script-src {policy_hash(SCRIPT)};" in text
    assert "default-src 'none'" in text


EVIL = '<script>document.title="owned"</script>'
EVENT = '"><img src=x onerror=\'document.title="owned"\'>'


def test_names_are_escaped():
    shown = str(table([Column("a", "A<b>")], [{"a": EVIL}, {"a": EVENT}], "T<i>"))
    shown += page(EVIL, EVIL, [(EVIL, EVENT, "")])
    inside = re.sub(r"<script>function.*?</script>", "", shown, flags=re.S)
    assert "<script" not in inside
    assert "<img" not in inside
    assert "<b>" not in inside
    assert "<i>" not in inside
    assert str(escape(EVIL)) in inside


SORTED = """(() => {
const names = () => Array.from(document.querySelectorAll("tbody")[0].rows,
  row => row.cells[2].textContent).join(" ");
const heads = document.querySelectorAll("th button");
const orders = [names()];
for (const at of [2, 2, 3, 3, 0]) { heads[at].click(); orders.push(names()); }
return [...orders, heads[0].closest("th").getAttribute("aria-sort"), document.title].join("|");
})()"""


def test_a_click_on_a_header_sorts_and_no_name_runs(browser, tmp_path, history):
    found = [result("b", 0.9), result("a10", 0.1, 0.9), result("a9", 0.5), result("c", None)]
    found[1]["predictions"][2]["value"] = -0.3
    found += [result(EVIL, 0.05), result(EVENT, 0.04)]
    write(tmp_path, found, history_of(history, *found), COURSE, {})
    file = tmp_path / "leaderboard.html"
    browser.open(file)
    told = browser.eval(SORTED).replace(EVIL, "evil").replace(EVENT, "event")
    *orders, aria, title = told.split("|")
    assert orders == [
        "b a9 a10 evil event c",  # as written, by overall
        "event evil a9 a10 b c",  # by name
        "c b a10 a9 evil event",  # and back
        "b a9 a10 evil event c",  # by SST, the largest first
        "event evil a10 a9 b c",  # the smallest first; what is missing stays last
        "b a9 a10 evil event c",  # by rank, the first one first
    ]
    assert (aria, title) == ("ascending", "minBERT: leaderboard")
    # besides the escaping: a script that got in would not run
    raw = file.read_text().replace("<tbody>", f"<tbody><tr><td>{EVIL}{EVENT}</td></tr>")
    open_page = re.sub(r"<meta http-equiv[^>]*>", "", raw)
    for text, title in ((raw, "minBERT: leaderboard"), (open_page, "owned")):
        file.write_text(text, encoding="utf-8")
        browser.open(file)
        assert browser.eval("document.title") == title
