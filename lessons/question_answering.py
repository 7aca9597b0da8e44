"""Answers that are spans of a text: BERT finds their ends (Devlin et al. 2019, section 4.2).

    python -m lessons.question_answering --train TRAIN --dev DEV
    python -m lessons.question_answering --predict 'Where was Ada Lovelace born?' \
        --context 'Ada Lovelace was born in London.' --checkpoint predictions/squad
    python -m lessons.question_answering --evaluate FILE --checkpoint predictions/squad

Files are SQuAD's (version 1.1) JSON. A context that is too long is read in windows that overlap.
The best epoch on dev is kept in the folder --out, which ``transformers`` loads too. The idea, and
what to try: docs/ner-and-qa.md#question-answering.

squad.py reads the files, finds each token's characters in the text, makes windows and scores
answers; heads.py has flags, folders and the head's weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from config import BertConfig
from lessons.heads import BertWithHead, HeadFlags, Trained, load, new_run, run_lesson
from lessons.squad import Question, Windows, best_spans, read_questions, score
from optimizer import AdamW
from tokenizer import BertTokenizer
from training.cli.flags import flag, positive_int
from training.cli.scripts import run_script
from training.files.errors import InputError
from training.files.writing import write_json
from training.loop import clip, evaluation_loader, parts, set_lr
from training.loop.models import check_segments
from training.loop.progress import progress_bar

LONGEST = 30  # tokens of an answer
KEYS = ("token_ids", "attention_mask", "token_type_ids", "labels")
# The columns of the table (headings and keys) and the curves of the page (keys and names)
COLUMNS = {
    "loss": "loss",
    "spans right": "right",
    "dev exact match": "dev_exact",
    "dev F1": "dev_f1",
}
CURVES = {"right": "spans right (train)", "dev_f1": "F1 (dev)", "dev_exact": "exact match (dev)"}


class QuestionAnswerer(BertWithHead):
    """For every token, a logit that an answer begins there and one that it ends there."""

    ARCHITECTURE = "BertForQuestionAnswering"
    HEAD = "qa_outputs"

    def __init__(self, config: BertConfig, labels: Sequence[str] | None = None):
        super().__init__(config, labels)
        check_segments(self.bert, "question answering")

    def forward(self, input_ids: Tensor, mask: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        """(B, L) three times → logits of the first and of the last token, (B, L) each."""
        hidden = self.bert(input_ids, mask, segments)["last_hidden_state"]  # (B, L, D)
        first, last = self.head(hidden).unbind(dim=-1)  # (B, L, 2) → (B, L), (B, L)
        return first, last


def span_loss(first: Tensor, last: Tensor, labels: Tensor) -> Tensor:
    """Mean of the cross-entropies of both ends, summed over rows: (B, L), (B, L), (B, 2) → ()."""
    ends = zip((first, last), labels.unbind(dim=1), strict=True)
    return sum(F.cross_entropy(end.float(), place, reduction="sum") for end, place in ends) / 2


@torch.no_grad()
def answer(trained: Trained, dataset: Windows, batch_size: int) -> list[str]:
    """For every question its best answer, which is "" where the context has no word."""
    model, device = trained.model.eval(), trained.device
    best = [(-math.inf, "")] * len(dataset.questions)  # score and text
    for batch in progress_bar(evaluation_loader(dataset, batch_size), "eval"):
        with trained.autocast():
            logits = model(*(batch[key].to(device) for key in KEYS[:3]))  # (B, L), (B, L)
        spans = best_spans(*logits, batch["answerable"].to(device), LONGEST)
        columns = batch["rows"], *(x.tolist() for x in spans)
        for i, value, first, last in zip(*columns, strict=True):
            row = dataset.rows[i]
            if value > best[row.question][0]:
                context = dataset.questions[row.question].context
                tokens = dataset.contexts[context]
                shift = row.begin - len(dataset.asked[row.question]) - 2
                text = context[tokens.starts[first + shift] : tokens.ends[last + shift]]
                best[row.question] = value, text
    return [text for _, text in best]


def windows_of(questions: list[Question], tokenizer: BertTokenizer, args) -> Windows:
    """The windows of these questions, with --length and --stride."""
    return Windows(questions, tokenizer, args.length, args.stride or args.length // 3)


def train(args: AnswerFlags) -> None:
    """Train on args.train; the epoch with the best F1 on args.dev is kept in args.out."""
    trained = load(args, QuestionAnswerer, labels=("first", "last"))
    model, tokenizer, device, autocast = trained
    train_set, dev_set = (
        windows_of(read_questions(file, args.limit), tokenizer, args)
        for file in (args.train, args.dev)
    )
    for file, dataset in ((args.train, train_set), (args.dev, dev_set)):
        print(f"{len(dataset.questions):,} questions in {len(dataset):,} windows of {file}")
        if not all(question.answers for question in dataset.questions):
            raise InputError(f"{file} holds questions without an answer; SQuAD 1.1's all have one")
    optimizer = AdamW(model.parameters(), lr=args.lr)

    with new_run(args, model, optimizer, train_set, COLUMNS, CURVES) as run:
        for _ in run.epochs():
            for batch in run.batches():
                for *inputs, labels in parts(batch, args.accumulate, device, KEYS):
                    with autocast():
                        first, last = model(*inputs)  # (B, L) three times → (B, L), (B, L)
                    loss = span_loss(first, last, labels)
                    run.scale(loss / len(batch["labels"])).backward()
                    predicted = torch.stack([first.argmax(dim=1), last.argmax(dim=1)], dim=1)
                    right = (predicted == labels).all(dim=1)  # (B, 2) → (B,), both ends
                    run.log(len(labels), loss=loss / len(labels), right=right)
                run.gather_gradients()
                clip(model, args.clip)
                set_lr(optimizer, args, run.step, run.total_steps)
                optimizer.step()
                optimizer.zero_grad()
                run.end_step()
            scores = score(dev_set.questions, answer(trained, dev_set, args.batch_size))
            if run.is_best(scores["f1"]):
                model.save_pretrained(args.out)
                tokenizer.save_pretrained(args.out, model.config.max_position_embeddings)
            run.end_epoch({f"dev_{name}": x for name, x in scores.items()})


def answer_with(args: AnswerFlags, questions: list[Question]) -> list[str]:
    """The answers of the model of args.checkpoint."""
    trained = load(args, QuestionAnswerer)
    return answer(trained, windows_of(questions, trained.tokenizer, args), args.batch_size)


def evaluate(args: AnswerFlags) -> None:
    """Answer a file's questions into NAME-predictions.json, {id: answer}, and print the scores."""
    file = args.evaluate or args.dev
    questions = read_questions(file, args.limit)
    answers = answer_with(args, questions)
    path = Path(args.out) / f"{Path(file).stem}-predictions.json"
    write_json(path, {q.id: text for q, text in zip(questions, answers, strict=True)})
    print(f"wrote {path}")
    scores = score(questions, answers)  # of those that have an answer
    write_json(Path(args.out) / f"{Path(file).stem}-scores.json", scores)
    print(f"exact match {100 * scores['exact']:.2f}, F1 {100 * scores['f1']:.2f} ({file})")


def predict(args: AnswerFlags) -> None:
    """Print the answer."""
    if args.context is None:
        raise InputError("--predict needs --context, the text that holds the answer")
    (text,) = answer_with(args, [Question("", args.predict, args.context, [])])
    print(f"    {' '.join(text.split())}")


@dataclass
class AnswerFlags(HeadFlags):
    """The command line's options."""

    out: str = flag("predictions/squad", may_change=True, help="folder for everything written")
    epochs: int = flag(2, type=positive_int, help="passes over the training data")
    batch_size: int = flag(16, type=positive_int, help="rows per update")
    length: int = flag(384, type=positive_int, help="most tokens per row")
    train: str | None = flag(None, help="SQuAD's JSON")
    dev: str | None = flag(None, help="the same, to choose the epoch")
    predict: str | None = flag(
        None, may_change=True, metavar="QUESTION", help="a question about --context"
    )
    context: str | None = flag(None, may_change=True, metavar="TEXT", help="the text")
    stride: int | None = flag(
        None, type=positive_int, help="overlap of windows, in tokens (a third of --length)"
    )


def main() -> None:
    """Train and score, or score or predict with a model that was trained."""
    run_lesson("Answer questions from a context.", AnswerFlags(), train, evaluate, predict)


if __name__ == "__main__":
    run_script(main)
