"""What a script that trains imports from here, in one line; each name is explained in its file."""

from training.loop.batches import TrainingLoader, evaluation_loader, parts
from training.loop.checkpoints import restore_model, save_model
from training.loop.devices import autocast_for, check_device, pick_device, speed_up
from training.loop.outputs import sole_run
from training.loop.processes import is_main_process, join_processes, on_main_process
from training.loop.run import Run, clip, set_lr
