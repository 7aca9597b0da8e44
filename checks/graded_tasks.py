"""The graded tasks in one table: it makes the README's table, the stubs' messages, the order of the
checks and the grader's rubric. It does not know how anything is checked.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GradedTask:
    """One function for the student to write."""

    number: str  # in working order
    id: str  # of the marked region in the solution
    file: str
    function: str
    paper: str  # where the formula stands
    points: int
    minutes: int  # what a student should expect to need
    check: str  # the command that checks it

    @property
    def title(self) -> str:
        """What stubs and checks call it."""
        return f"Task {self.number} · {self.function}"


GRADED_TASKS = (
    GradedTask(
        "1.1",
        "bert.attention",
        "bert.py",
        "BertSelfAttention.attention",
        "Vaswani et al. 2017, §3.2, eq. 1",
        20,
        60,
        "python sanity_check.py --task 1.1",
    ),
    GradedTask(
        "1.2",
        "bert.add_norm",
        "bert.py",
        "BertLayer.add_norm",
        "Vaswani et al. 2017, §3.1, §5.4",
        10,
        15,
        "python sanity_check.py --task 1.2",
    ),
    GradedTask(
        "1.3",
        "bert.layer",
        "bert.py",
        "BertLayer.forward",
        "Vaswani et al. 2017, figure 1; §3.3",
        15,
        30,
        "python sanity_check.py --task 1.3",
    ),
    GradedTask(
        "1.4",
        "bert.embed",
        "bert.py",
        "BertModel.embed",
        "Devlin et al. 2019, figure 2",
        15,
        30,
        "python sanity_check.py --task 1.4",
    ),
    GradedTask(
        "1.5",
        "optimizer.step",
        "optimizer.py",
        "AdamW.step",
        "Kingma & Ba 2015, alg. 1; Loshchilov & Hutter 2019, alg. 2",
        20,
        60,
        "python optimizer_test.py",
    ),
    GradedTask(
        "1.6",
        "classifier.init",
        "classifier.py",
        "BertSentimentClassifier.__init__",
        "Devlin et al. 2019, §4.1",
        5,
        15,
        "python sanity_check.py --task 1.6",
    ),
    GradedTask(
        "1.7",
        "classifier.forward",
        "classifier.py",
        "BertSentimentClassifier.forward",
        "Devlin et al. 2019, §4.1",
        15,
        20,
        "python sanity_check.py --task 1.7",
    ),
    GradedTask(
        "2.1",
        "multitask.init",
        "multitask_classifier.py",
        "MultitaskBERT.__init__",
        "Devlin et al. 2019, §4.1",
        10,
        20,
        "python sanity_check.py --task 2.1",
    ),
    GradedTask(
        "2.2",
        "multitask.forward",
        "multitask_classifier.py",
        "MultitaskBERT.forward",
        "Devlin et al. 2019, §4.1; Reimers & Gurevych 2019, §3",
        10,
        15,
        "python sanity_check.py --task 2.2",
    ),
    GradedTask(
        "2.3",
        "multitask.predict_sentiment",
        "multitask_classifier.py",
        "MultitaskBERT.predict_sentiment",
        "Devlin et al. 2019, §4.1",
        20,
        15,
        "python sanity_check.py --task 2.3",
    ),
    GradedTask(
        "2.4",
        "multitask.predict_paraphrase",
        "multitask_classifier.py",
        "MultitaskBERT.predict_paraphrase",
        "Reimers & Gurevych 2019, §3",
        30,
        60,
        "python sanity_check.py --task 2.4",
    ),
    GradedTask(
        "2.5",
        "multitask.predict_similarity",
        "multitask_classifier.py",
        "MultitaskBERT.predict_similarity",
        "Reimers & Gurevych 2019, §3",
        30,
        60,
        "python sanity_check.py --task 2.5",
    ),
)


def graded_task(key: str) -> GradedTask:
    """The task with that number ('1.2') or id ('bert.add_norm'); KeyError if there is none."""
    for entry in GRADED_TASKS:
        if key in (entry.number, entry.id):
            return entry
    raise KeyError(f"no task {key}; there are {', '.join(entry.number for entry in GRADED_TASKS)}")
