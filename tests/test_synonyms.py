"""extensions/text/synonyms.py, on a small dictionary in WordNet's format and on the real one."""

import random
from collections import Counter
from pathlib import Path

import pytest
from support import assert_refused, one_line_error, succeeded

from extensions import multitask
from extensions.text.synonyms import STOP_WORDS, augmented, read_synonyms, reworded

REAL = Path("/usr/share/wordnet")
LICENCE = "  1 This software and database is being provided to you, the LICENSEE, by\n"
LINES = {
    "data.noun": [
        '00000001 10 n 03 film 0 movie 0 moving_picture 0 001 @ 0 n 0000 | a story; "a good film"',
        "00000002 10 n 02 film 1 Movie_Camera 0 000 | a thin layer",
        "00000003 10 n 01 lonely 0 000 | alone in its meaning",
    ],
    "data.verb": ["00000001 29 v 02 warm 0 heat 0 001 @ 0 v 0000 01 + 08 00 | make warm"],
    "data.adj": ["00000001 00 a 0a good(p) 0 a 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 fine(a) 0 000 | well"],
    "data.adv": ["00000001 02 r 02 not 0 non 0 000 | negation"],
}


@pytest.fixture
def wordnet(tmp_path) -> Path:
    folder = tmp_path / "wordnet"
    folder.mkdir()
    for name, lines in LINES.items():
        (folder / name).write_text(LICENCE + "".join(f"{line}\n" for line in lines))
    return folder


def test_words_of_a_meaning_are_synonyms(wordnet):
    found = read_synonyms(wordnet)
    assert found["film"] == ["movie", "movie camera", "moving picture"]
    assert found["movie"] == ["film", "moving picture"]
    assert found["warm"] == ["heat"]
    assert "fine" in found["good"]  # ten words, which the file counts in hex, without their marks
    assert "lonely" not in found


def test_words_change_wherever_they_occur_and_the_rest_stays(wordnet):
    found = reworded(
        "Film, a LONELY film (not warm)!", read_synonyms(wordnet), 0.2, random.Random(1)
    )
    assert found in {
        *(f"{word}, a LONELY {word} (not warm)!" for word in read_synonyms(wordnet)["film"]),
        "Film, a LONELY film (not heat)!",
    }


def test_stop_words_and_unknown_words_stay(wordnet):
    assert "not" in STOP_WORDS
    text = "it's not a zzz."
    assert reworded(text, read_synonyms(wordnet), 0.9, random.Random(0)) == text


@pytest.mark.parametrize(("fraction", "changed"), [(0.0, 1), (0.1, 1), (0.5, 2), (0.75, 3)])
def test_how_many_words_change(fraction, changed):
    synonyms = {word: [f"{word}{word}"] for word in ("ab", "cd", "ef", "gh")}
    found = reworded("ab cd ef gh", synonyms, fraction, random.Random(0)).split()
    assert sum(len(word) == 4 for word in found) == changed


def test_further_wordings_follow_the_rows_and_the_seed_alone(wordnet):
    synonyms, rows = read_synonyms(wordnet), [("a warm film", 3, "x"), ("zzz", 1, "y")] * 4
    found = augmented(rows, synonyms, 2, 0.1, seed=5)
    assert found[:8] == rows
    assert [(label, key) for _, label, key in found[8:10]] == [(3, "x-1"), (1, "y-1")]
    assert len(found) == 24
    assert found == augmented(rows, synonyms, 2, 0.1, seed=5)
    assert found != augmented(rows, synonyms, 2, 0.1, seed=6)
    assert len(Counter(text for text, *_ in found)) > 3


@pytest.mark.parametrize("fault", ["missing", "cut", "of another kind"])
def test_what_is_not_a_dictionary_is_one_line(wordnet, fault):
    file = wordnet / "data.verb"
    if fault == "missing":
        file.unlink()
    else:
        file.write_text("00000001 29 v 09 warm 0\n" if fault == "cut" else "warm;heat\n")
    with one_line_error(f"no WordNet in {wordnet}, or a broken one (data.verb", "wordnet-base"):
        read_synonyms(wordnet)


def test_a_run_learns_from_them(run_script_here, wordnet, tiny_model_folder, tiny_data):
    line = ["--tasks", "sst", "--option", "finetune", "--epochs", "1", "--model", tiny_model_folder]
    line += ["--data_dir", tiny_data, "--steps_per_epoch", "2", "--synonyms", "2"]
    done = succeeded(run_script_here(multitask, *line, "--wordnet", wordnet))
    (said,) = (text for text in done.out.splitlines() if text.startswith("synonyms: "))
    before, after = (int(word) for word in said.split() if word.isdigit())
    assert after == 3 * before
    assert_refused(
        run_script_here(multitask, *line, "--wordnet", "nowhere"), "no WordNet in nowhere"
    )


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no WordNet in {REAL}: apt install wordnet-base")
def test_the_real_dictionary():
    synonyms = read_synonyms(REAL)
    assert len(synonyms) > 80_000
    assert {"movie", "picture"} <= set(synonyms["film"])
    assert {"dull", "tedious", "tiresome"} <= set(synonyms["boring"])
