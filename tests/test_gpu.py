"""On a GPU with CUDA: the numbers of the CPU, the same run twice, interrupted runs, NCCL.

Nothing here runs without such a device. Where there is none, --use_gpu computes on the CPU: with
``pytestmark`` taken away, one can try there what the tests themselves do.
"""

import signal
from pathlib import Path

import pytest
import torch
from factories import ROOT, tiny_config
from running import as_process, draw_nothing, left_by, succeeded

import classifier
from bert import BertModel
from training.fast.attention import use_attention_kernel
from training.loop.checkpoints import ResumePoint
from training.loop.devices import pick_device
from training.loop.run import Run

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(),
    reason="no CUDA device here: what --use_gpu computes is not tested",
)
FILES = ("*.pt", "predictions/*.csv", "predictions/*-metrics.json")


@pytest.fixture
def line(tiny_model_folder, tiny_data) -> list[str]:
    """Seven steps an epoch, with dropout, in bfloat16 where the device has it."""
    places = ["--model", str(tiny_model_folder), "--data_dir", str(tiny_data)]
    shape = "--use_gpu --only sst --option finetune --lr 1e-3 --epochs 2 --batch_size 4"
    return [*shape.split(), *places]


@pytest.mark.parametrize("has_kernel", [False, True])
def test_states_and_gradients_of_the_cpu(has_kernel):
    """In float32, which CUDA multiplies as such unless it is told otherwise."""
    found = {}
    for device in (torch.device("cpu"), pick_device(True)):
        torch.manual_seed(0)
        model = BertModel(tiny_config(hidden_dropout_prob=0, attention_probs_dropout_prob=0))
        if has_kernel:
            use_attention_kernel(model, in_training=True)
        model.to(device).train()
        ids = torch.randint(1, 100, (3, 7))
        mask = torch.ones_like(ids)
        mask[1, 4:] = 0
        states = model(ids.to(device), mask.to(device))["last_hidden_state"]  # (B, L, D)
        states[mask.bool()].square().sum().backward()
        found[device.type] = (
            states.detach().cpu()[mask.bool()],
            {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None},
        )
    (expected, gradients), (states, others) = found["cpu"], found[pick_device(True).type]
    torch.testing.assert_close(states, expected, atol=1e-4, rtol=1e-4)
    assert [*gradients] == [*others]
    for name, gradient in gradients.items():
        torch.testing.assert_close(others[name], gradient, atol=1e-3, rtol=1e-3, msg=name)


def test_a_run_repeats_itself(line, run_script_here, monkeypatch, tmp_path):
    """With the same seed every tensor and every score is the same, to the bit."""
    draw_nothing(monkeypatch)
    found = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert run_script_here(classifier, *line).code == 0
        found.append(left_by(tmp_path / name, *FILES))
    assert found[0] == found[1]


def test_an_interrupted_run_ends_as_if_untouched(line, run_script_here, monkeypatch, tmp_path):
    """Dropout's random state on the device is resumed, too."""
    draw_nothing(monkeypatch)
    monkeypatch.setattr(ResumePoint.__init__, "__defaults__", (0.0,))
    (tmp_path / "untouched").mkdir()
    monkeypatch.chdir(tmp_path / "untouched")
    assert run_script_here(classifier, *line).code == 0
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        step, steps = Run.gather_gradients, []

        def stop_at_the_tenth(run: Run) -> None:
            step(run)
            steps.append(1)
            if len(steps) == 10:
                signal.raise_signal(signal.SIGINT)

        patch.setattr(Run, "gather_gradients", stop_at_the_tenth)
        assert run_script_here(classifier, *line).code == 1
    assert run_script_here(classifier, *line, "--resume").code == 0
    assert left_by(tmp_path, *FILES) == left_by(tmp_path / "untouched", *FILES)


def torchrun(*arguments, folder: Path):
    """One process that has a group of its own."""
    folder.mkdir()
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "1")
    return succeeded(as_process(*launcher, *arguments, folder=folder, PYTHONPATH=str(ROOT)))


def test_one_process_under_torchrun_trains_as_without(line, tmp_path):
    (tmp_path / "alone").mkdir()
    succeeded(as_process(ROOT / "classifier.py", *line, folder=tmp_path / "alone"))
    done = torchrun(ROOT / "classifier.py", *line, folder=tmp_path / "group")
    assert "processes: 1 train together" in done.out
    assert left_by(tmp_path / "group", *FILES) == left_by(tmp_path / "alone", *FILES)


MESSAGES = """
import torch
import torch.distributed as dist
from training.loop import processes

processes.join_processes(use_gpu=True)
processes.world_size = lambda: 2  # a single one sends no messages
model = torch.nn.Linear(3, 2).to("cuda" if torch.cuda.is_available() else "cpu")
model(torch.ones(4, 3, device=model.weight.device)).sum().backward()
assert processes.sum_gradients(model, True)
assert model.weight.grad.tolist() == [[4.0] * 3] * 2, model.weight.grad
assert processes.gather({"a": 1})[0] == {"a": 1}
print("messages through", dist.get_backend(), flush=True)
processes.leave_processes()
"""


def test_nccl_carries_every_kind_of_message(tmp_path):
    """A smoke test, from one process to itself: two need two devices."""
    script = tmp_path / "messages.py"
    script.write_text(MESSAGES)
    assert "messages through cpu:gloo,cuda:nccl" in torchrun(script, folder=tmp_path / "group").out
