# %% [markdown]
# # Part 1: from the checks to a submission
#
# For Colab, Kaggle or Jupyter. `docs/handout.md` explains each task; this notebook only runs things. You write in
# the files `bert.py`, `optimizer.py` and `classifier.py`: double-click them in the file browser on the left, save,
# and run the cell again. Colab and Kaggle forget all files at the end, so push to your repository as you go.
#
# `REPOSITORY` is the address of your group's repository. Leave it empty where the notebook lies in it.

# %%
REPOSITORY = ""

import os
import subprocess
from pathlib import Path

import torch

if REPOSITORY:
    subprocess.run(["git", "clone", "--quiet", REPOSITORY, "minbert"], check=True)
    os.chdir("minbert")
elif Path.cwd().name == "notebooks":
    os.chdir("..")
FLAGS = "--use_gpu" if torch.cuda.is_available() else ""
FLAGS += " " + os.environ.get("MINBERT_NOTEBOOK_FLAGS", "")

# %% [markdown]
# The data. Without a network this says so, and all runs on the practice set and a smaller model.

# %%
# !python data/download.py

# %% [markdown]
# ## Write and check
#
# Each check judges one function alone. At the start all of them say `not started`.

# %%
# !python sanity_check.py

# %% [markdown]
# Take the first task that is not `ok`, write it, and check it alone:

# %%
TASK = "1.1"
# !python sanity_check.py --task {TASK}

# %% [markdown]
# Task 1.5, the optimizer, has a check of its own:

# %%
# !python optimizer_test.py

# %% [markdown]
# ## Train
#
# Begin when every task is `ok`. Only the head learns, then all of BERT:

# %%
# !python classifier.py --only sst --option pretrain --lr 1e-3 {FLAGS}

# %%
# !python classifier.py --only sst --option finetune --lr 1e-5 {FLAGS}

# %% [markdown]
# ## Look
#
# `predictions/finetune-sst-report.html` has all of it on one page; download it and open it in a browser. Which classes
# does the model confuse?

# %%
from IPython.display import Image, display

display(Image("predictions/finetune-sst-confusion.png"))

# %%
# !python classifier.py --predict "Not bad, if you like queues." --checkpoint sst-classifier.pt {FLAGS}

# %% [markdown]
# ## Hand in
#
# Add `--name` with the ID and group that `README.md` asks for, then download the zip that this names.

# %%
# !python prepare_submit.py
