"""What the scripts refuse that make data or a zip, and weights that would be misread."""

import torch
from factories import save_sentiment_checkpoint
from row import Row, written

NO_TEXT = '{"sentence1": null, "sentence2": "", "gold_label": ""}'


def checkpoint_with_nan(folder):
    """x.pt, of classifier.py."""
    path = save_sentiment_checkpoint(folder / "x.pt", folder / "model")
    saved = torch.load(path, weights_only=True)
    saved["model"]["classifier.weight"][0, 0] = float("nan")
    torch.save(saved, path)


SNLI = "data.convert snli . --out o"
ROWS = [
    Row("classifier.py --predict a --checkpoint x.pt", "does not hold finite", checkpoint_with_nan),
    Row("data.convert imdb . --out o", "no reviews in train/neg and train/pos"),
    Row(SNLI, "row 1 has no text as its sentence1", written("snli_1.0_dev.jsonl", NO_TEXT)),
    Row(SNLI, "line 1 is not valid JSON", written("snli_1.0_dev.jsonl", "{")),
    Row("data.convert text t.csv --out o", "column sentence", written("t.csv", "id,label\n1,0\n")),
    Row("data.convert few data/sts-dev.csv --rows 99 --out o", "sts-dev.csv has 11 rows; give as"),
    Row("data.download --only nobody.csv", "argument --only: invalid choice: 'nobody.csv'"),
    Row("prepare_submit.py --name 'a b'", "--name 'a b': put your ID and group there"),
    Row("prepare_submit.py --data_dir no", "no lacks ids-sst-tr", written("bert.py", "")),
    Row("prepare_submit.py", "no file of part 1 is in this folder; run it in"),
]
