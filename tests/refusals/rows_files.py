"""What training refuses of tables and of a model's files."""

from pathlib import Path

from row import Row, cell, written

FINETUNE = "classifier.py --option finetune --only sst --data_dir data --model model"
TASKS = "multitask_classifier.py --option finetune --data_dir data --model model"
STS = "id\tsentence1\tsentence2\tsimilarity"
TABLE = "data/ids-sst-dev.csv"
SWALLOWED = 'id\tsentence\tlabel\n \t \na\t"good\t1"\n'  # the row of blanks is none
STRAY = 'id\tsentence\tlabel\na\t"good\t1\nb\tbad"\t0\n'


def longer_vocabulary(folder: Path) -> None:
    with (folder / "model/vocab.txt").open("a") as file:
        file.write("more\n")


ROWS = [
    # tables
    Row(FINETUNE, "line 1 is not UTF-8", written(TABLE, "a\n".encode("utf-16"))),
    Row(FINETUNE, "line 2 has a NUL character", written(TABLE, b"a\nb\0\n")),
    Row(FINETUNE, "row 1 has 2 cells, the first line 3", written(TABLE, SWALLOWED)),
    Row(FINETUNE, "two columns 'label'", written(TABLE, "id\tsentence\tlabel\tLabel\n")),
    Row(FINETUNE, "'١', not an integer", cell("ids-sst-dev.csv", 1, "sentiment", "١")),
    Row(FINETUNE, "row 1 (id a,1) has a comma", cell("ids-sst-dev.csv", 1, "id", '"a,1"')),
    Row(FINETUNE, '1 (a\t"good\t1 …) is one row if', written(TABLE, STRAY)),
    Row(TASKS, "row 1 (id", cell("quora-test-student.csv", 1, "sentence2", "")),  # not left out
    Row(TASKS, "no row has two sentences", written("data/sts-dev.csv", f"{STS}\na\tx\t\t1\n")),
    *(
        Row(TASKS, f"{file}-dev.csv, row 2", cell(f"{file}-dev.csv", 2, column, value))
        for file, column, values in (
            ("sts", "similarity", "-0.1 nan much"),
            ("quora", "is_duplicate", "2.0 0.5"),
        )
        for value in values.split()
    ),
    # a model's files
    Row(FINETUNE, "is not valid JSON (maximum", written("model/config.json", "[" * 99_999)),
    Row(FINETUNE, "is not a JSON object {…}", written("model/config.json", "[1]")),
    Row(FINETUNE, "has 90 tokens, the model 89", longer_vocabulary),
]
