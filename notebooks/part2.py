# %% [markdown]
# # Part 2: one model, three tasks
#
# For Colab, Kaggle or Jupyter, with part 1 done. You write in `multitask_classifier.py`; `docs/part2.md` says
# what. On the real files you want a GPU: in Colab *Runtime*, *Change runtime type*.
#
# `part1.ipynb` says what to fill in below.

# %%
# first_cell.py

# %% [markdown]
# The data. Without a network this says so, and all runs on the practice set and a smaller model.

# %%
# !python -m data.download

# %% [markdown]
# ## Write and check
#
# These checks compare with no reference: they test what all right ways have in common.

# %%
# !python sanity_check.py --part 2

# %% [markdown]
# ## The first run
#
# It learns SST alone, because the given `train_multitask` trains nothing else. A few steps show that all of it works:

# %%
# !python multitask_classifier.py --option pretrain --lr 1e-3 --epochs 1 --steps_per_epoch 20 {FLAGS}

# %% [markdown]
# ## All three tasks
#
# Now add to `LOSSES`, and train. With `--resume` the same command goes on after an interruption, as
# long as the files are still there.

# %%
# !python multitask_classifier.py --option finetune --lr 2e-5 --batch_size 16 {FLAGS}

# %%
metrics = Path("predictions/multitask-metrics.json")
if metrics.is_file():
    print(metrics.read_text()[-1500:])
else:
    print("no metrics yet: train first; python sanity_check.py --part 2 says what is missing")

# %% [markdown]
# `predictions/multitask-report.html` has all of it on one page.
#
# ## Hand in
#
# Part 2 also wants your `README.md`, which is your report, and the AI-usage card. What is missing
# is listed. Fill in `NAME` here, too.

# %%
NAME = "ID_GROUP"
# !python prepare_submit.py --part 2 --name "{NAME}"
