"""The search for hyper-parameters (research/experiments/search.py)."""

from pathlib import Path

import pytest
from made_up import calls, write_toml
from support import assert_refused, succeeded

from research.experiments import results, search
from training.files.errors import InputError

pytest.importorskip("optuna", reason="Optuna is an extra: requirements-search.txt")


def search_toml(place: Path, trials: int, low: str = "0.0") -> Path:
    ranges = f"[search]\ntrials = {trials}\nlr = {{ low = {low}, high = 1.0 }}\n"
    more = ranges + 'mode = { choices = ["a", "b"] }\nsize = { low = 1, high = 4 }\n'
    return write_toml(place, "tuned", more=more, seeds="[7]")


def test_a_search_goes_on_where_it_stopped(place, run_script_here):
    succeeded(run_script_here(search, search_toml(place, 2)))
    assert len(calls(place)) == 2
    result = succeeded(run_script_here(search, search_toml(place, 5)))
    assert len(calls(place)) == 5
    assert "the best of 5 trials" in result.out
    words = [call.replace(" --fast", "").split() for call in calls(place)]
    tried = [dict(zip(call[::2], call[1::2], strict=True)) for call in words]
    assert all(flags["--mode"] in "ab" and flags["--size"] in "1234" for flags in tried)
    assert len({flags["--lr"] for flags in tried}) == 5  # none is proposed twice
    closest = min(tried, key=lambda flags: abs(float(flags["--lr"]) - 0.3))
    best = result.out.split("overall on dev:\n")[1].splitlines()[0]
    assert f"--lr {closest['--lr']} " in best
    assert f"{1 - abs(float(closest['--lr']) - 0.3):.4f}" in best
    assert not results.RESULTS.exists()  # a search is no result
    result = run_script_here(search, search_toml(place, 5, low="0.2"))
    assert_refused(result, "is of other flags or ranges; delete it", code=1)


def test_an_interrupted_search_goes_on(place, run_script_here, monkeypatch):
    call, stops = results.call, [False, True]

    def stopped(command):
        status, _ = call(command)
        return status, bool(stops) and stops.pop(0)

    monkeypatch.setattr(results, "call", stopped)
    result = run_script_here(search, search_toml(place, 3))
    assert result.code == 1
    assert "the best of 3 trials" in succeeded(run_script_here(search, search_toml(place, 3))).out
    assert len(calls(place)) == 4  # one that was done, one that was stopped, and two more


def test_trials_that_fail_count_as_tried(place, run_script_here):
    ranges = "[search]\ntrials = 2\nlr = { choices = [13.0] }\n"
    result = run_script_here(search, write_toml(place, "tuned", more=ranges))
    assert (result.code, len(calls(place))) == (1, 2)
    assert "none of 2 trials finished" in result.err


@pytest.mark.parametrize(
    "ranges",
    [
        "",
        "[search]\ntrials = 0\nlr = { low = 1, high = 2 }\n",
        "[search]\ntrials = 3\nlr = { low = 2, high = 1 }\n",
        "[search]\ntrials = 3\nlr = { low = 0, high = 1, log = true }\n",
        "[search]\ntrials = 3\nlr = { choices = [] }\n",
    ],
)
def test_faulty_ranges(place, ranges):
    experiment = results.read_experiment(write_toml(place, "a", more=ranges))
    with pytest.raises(InputError, match=r"a: \[search\]"):
        search.read_search(experiment)
