"""A headless Chromium, driven as a person would, for the tests of pages."""

import json
import os
import subprocess
import time


class Browser:
    """A headless browser, driven through a pipe in the DevTools protocol: commands and events."""

    def __init__(self, path: str, profile):
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        there = (os.dup2(read_there, 100), os.dup2(write_there, 101))  # out of the way of 3 and 4
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        options += [
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
            "--window-size=900,700",
        ]
        shell = 'exec 3<&100 4>&101 100<&- 101>&-; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "bash", path, *options, "about:blank"],
            pass_fds=there,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in (*there, read_there, write_there):
            os.close(number)
        self.input = os.fdopen(read_here, "rb")
        self.output = os.fdopen(write_here, "wb")
        self.count, self.events, self.session = 0, [], None
        pages = self("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in pages if one["type"] == "page")
        self.session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **params) -> dict:
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        message |= {"sessionId": self.session} if self.session else {}
        self.output.write(json.dumps(message).encode() + b"\0")
        self.output.flush()
        while True:
            answer = self.next()
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                return answer["result"]

    def next(self) -> dict:
        message = b""
        while not message.endswith(b"\0"):
            byte = self.input.read(1)
            assert byte, "the browser has ended"
            message += byte
        answer = json.loads(message[:-1])
        if "method" in answer:
            self.events.append(answer)
        return answer

    def open(self, path) -> None:
        self.events.clear()
        self("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.next()

    def eval(self, expression: str):
        result = self("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def hover(self, selector: str) -> list[float]:
        x, y = self.eval(
            f"(() => {{ const e = {selector}; e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return [x, y]

    def click(self, selector: str) -> None:
        x, y = self.hover(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Into what has the focus."""
        self("Input.insertText", text=text)

    def wait(self, condition: str, seconds: float = 60) -> None:
        """Until an expression is true in the page."""
        end = time.monotonic() + seconds
        while not self.eval(f"Boolean({condition})"):
            assert time.monotonic() < end, (condition, self.complaints())
            time.sleep(0.02)

    def complaints(self) -> list[dict]:
        bad = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        bad += ("Page.javascriptDialogOpening",)
        return [event for event in self.events if event["method"] in bad]

    def close(self) -> None:
        self("Browser.close")
        self.process.wait(timeout=30)
        self.input.close()
        self.output.close()
