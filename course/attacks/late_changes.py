"""Changes its results later: a thread, atexit, a tracer, a destructor.

Defended by: worker.py copies outputs and leaves by os._exit; the grader judges what was sent.
"""

FUNCTIONS = """
import atexit, sys, threading, time
kept = []
def evil(self, first, *_):
    length = first.shape[-2] if first.dim() > 2 else first.shape[1]
    result = torch.zeros(first.shape[0], length, 32, dtype=torch.get_default_dtype())
    kept.append(result)
    return result
def later():
    while True:
        for tensor in list(kept):
            tensor.fill_(1.0)
        time.sleep(0.001)
threading.Thread(target=later, daemon=True).start()
atexit.register(lambda: [tensor.fill_(2.0) for tensor in kept])
sys.setprofile(lambda *_: None)
"""
