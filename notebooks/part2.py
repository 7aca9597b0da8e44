# %% [markdown]
# # Part 2: one model, three tasks
#
# This notebook is for Colab, Kaggle or Jupyter, and begins where part 1 ends. You write in `multitask_classifier.py`;
# `docs/part2.md` says what. On the real files you need a GPU: in Colab choose *Runtime*, *Change runtime type*.
#
# `part1.ipynb` explains what to fill in below.

# %%
# first_cell.py

# %% [markdown]
# Download the data. Without a network, the script says so, and everything runs on the practice set and a smaller model.

# %%
# !python -m data.download

# %% [markdown]
# ## Write and check
#
# These checks have no reference to compare with. They test what all correct solutions have in common.

# %%
# !python sanity_check.py --part 2

# %% [markdown]
# ## The first run
#
# The first run trains on SST alone, because `LOSSES` contains nothing else yet. A few steps show whether everything works:

# %%
# !python multitask_classifier.py --option pretrain --lr 1e-3 --epochs 1 --steps_per_epoch 20 {FLAGS}

# %% [markdown]
# ## All three tasks
#
# Now add the losses of the other tasks to `LOSSES`, and train. With `--resume`, the same command continues after an
# interruption, as long as the files are still there.

# %%
# !python multitask_classifier.py --option finetune --lr 2e-5 --batch_size 16 {FLAGS}

# %% [markdown]
# `predictions/multitask-report.html` shows everything on one page.
#
# ## Hand in
#
# Part 2 also needs your `README.md`, which is your report, and the AI-usage card. The command lists what is missing. Fill in
# `NAME` here, too.

# %%
NAME = "ID_GROUP"
# !python prepare_submit.py --part 2 --name "{NAME}"
