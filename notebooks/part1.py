# %% [markdown]
# # Part 1: from the checks to a submission
#
# For Colab, Kaggle or Jupyter. `docs/handout.md` explains each task; this notebook only runs things. You write in
# the files `bert.py`, `optimizer.py` and `classifier.py`: double-click them in the file browser on the left, save,
# and run the cell again. Colab and Kaggle forget all files at the end, so push to your repository as you go.
#
# In Colab or Kaggle, put the address of your group's repository into `REPOSITORY`; in a clone, leave it empty. A
# private repository takes a token that may read this repository alone: `https://TOKEN@github.com/GROUP/minbert.git`.
# Remove it before you share the notebook: who has the token can read your code. What is missing is installed; a
# PyTorch that is already there stays.

# %%
# first_cell.py

# %% [markdown]
# The data. Without a network this says so, and all runs on the practice set and a smaller model.

# %%
# !python -m data.download

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
report = Path("predictions/finetune-sst-report.txt")
missing = "no report yet: train first; python sanity_check.py says what is missing"
print(report.read_text() if report.is_file() else missing)

# %%
# !python classifier.py --predict "Not bad, if you like queues." --checkpoint sst-classifier.pt {FLAGS}

# %% [markdown]
# ## Hand in
#
# Fill in `NAME` as `README.md` asks for, then download the zip that this names.

# %%
NAME = "ID_GROUP"
# !python prepare_submit.py --name "{NAME}"
