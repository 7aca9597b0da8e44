"""Looks into its parent and writes into it: ptrace, process_vm_writev, files in /proc/PID.

Defended by: worker.py: PR_SET_DUMPABLE; confine.py: no such calls.
"""

STEP = """
import ctypes, os
def evil(self, closure=None):
    got, libc, parent = [], ctypes.CDLL(None), os.getppid()
    if libc.ptrace(16, parent, 0, 0) == 0:
        got.append("ptrace")
    for name in ("process_vm_readv", "process_vm_writev"):
        if getattr(libc, name)(parent, None, 0, None, 0, 0) >= 0:
            got.append(name)
    for name in ("mem", "environ", "maps", "stack", "syscall"):
        try:
            open(f"/proc/{parent}/{name}", "rb").read(1)
            got.append(name)
        except OSError:
            pass
    try:
        with open(f"/proc/{parent}/oom_score_adj", "w") as file:
            file.write("1000")
        got.append("oom_score_adj")
    except OSError:
        pass
    raise Exception(f"GOT THROUGH: {got}" if got else "nothing seen")
"""
