"""Leaves by a subclass of SystemExit, and by an exception that nobody catches.

Defended by: worker.py: a task's process ends in os._exit, whatever was raised.
"""

CODE = {
    "bert.py": """
class Done(SystemExit):
    code = 0
    def __str__(self):
        raise KeyboardInterrupt
raise Done
""",
    "optimizer.py": """
class Final(BaseException):
    pass
raise Final
""",
    "classifier.py": """
raise KeyboardInterrupt
""",
}
