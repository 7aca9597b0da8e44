"""Calls home: inet and Unix sockets, names.

Defended by: isolation.py: no network; confine.py: no sockets at all.
"""

STEP = """
import socket
def evil(self, closure=None):
    got = []
    for kind in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, 16):
        try:
            socket.socket(kind, socket.SOCK_DGRAM)
            got.append(kind)
        except OSError:
            pass
    try:
        socket.socketpair()
        got.append("pair")
    except OSError:
        pass
    try:
        socket.getaddrinfo("example.org", 80)
        got.append("names")
    except OSError:
        pass
    raise Exception(f"GOT THROUGH: {got}" if got else "no network")
"""
