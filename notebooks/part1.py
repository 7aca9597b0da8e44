# %% [markdown]
# # Part 1: from the checks to a submission
#
# This notebook is for Colab, Kaggle or Jupyter. It only runs things; `docs/handout.md` explains each task. You write in
# the files `bert.py`, `optimizer.py` and `classifier.py`. Double-click a file in the file browser on the left, save it,
# and run the cell again. Colab and Kaggle forget all files at the end, so push to your repository as you go.
#
# In Colab or Kaggle, put the address of your group's repository into `REPOSITORY`; in a clone, leave it empty. A
# private repository takes a token that may read this repository alone: `https://TOKEN@github.com/GROUP/minbert.git`.
# Remove the token before you share the notebook, because anyone who has it can read your code. The cell installs packages
# that are missing, and keeps a PyTorch that is already installed.

# %%
# first_cell.py

# %% [markdown]
# Download the data. Without a network, the script says so, and everything runs on the practice set and a smaller model.

# %%
# !python -m data.download

# %% [markdown]
# ## Write and check
#
# Each check tests one function on its own. At the start all of them say `not started`, which is normal.

# %%
# !python sanity_check.py

# %% [markdown]
# Take the first task that is not `ok`, write it, and check it on its own. If you are stuck, add `--hint`:

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
# Begin when every task is `ok`. In the first run only the head learns, in the second all of BERT:

# %%
# !python classifier.py --only sst --option pretrain --lr 1e-3 {FLAGS}

# %%
# !python classifier.py --only sst --option finetune --lr 1e-5 {FLAGS}

# %% [markdown]
# ## Look
#
# `predictions/finetune-sst-report.html` shows the curves on one page; download it and open it in a browser. Then try a
# sentence of your own:

# %%
# !python classifier.py --predict "Not bad, if you like queues." --checkpoint sst-classifier.pt {FLAGS}

# %% [markdown]
# ## Hand in
#
# Fill in `NAME` as `README.md` says, then download the zip that the command names.

# %%
NAME = "ID_GROUP"
# !python prepare_submit.py --name "{NAME}"
