"""What commands of every kind refuse: flags, data files, models, checkpoints."""

import shutil

from row import Row, cell, written

FINETUNE = "classifier.py --option finetune --only sst --data_dir data --model model"

ROWS = [
    Row(f"{FINETUNE} --lr nan", "argument --lr: 'nan' is not"),
    Row(FINETUNE, "ids-sst-dev.csv, row 6", cell("ids-sst-dev.csv", 6, "sentence", "  ")),
    Row(FINETUNE, "model.safetensors", written("model/model.safetensors", b"truncated")),
    Row(FINETUNE, "model", lambda folder: shutil.rmtree(folder / "model")),
    Row("classifier.py --predict 'a film' --checkpoint none.pt", "none.pt"),
    Row("multitask_classifier.py --tasks sst,sentiment", "no task 'sentiment'"),
    Row("extensions.multitask --rank 4", "--rank needs --adapt lora"),
]
