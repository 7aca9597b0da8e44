"""data/download.py against a local server."""

import hashlib
import socket
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from running import one_line_error

from data import download
from training.files.course_files import PRACTICE_DATA, data_folder

ONE = bytes(range(256)) * 2000  # 512,000 bytes: several reads
TWO = b"\tid\tsentence\n" * 5000


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder; of every file no more than ``server.cut`` bytes."""

    def copyfile(self, source, outputfile):
        """Send the file."""
        outputfile.write(source.read(self.server.cut))

    def log_message(self, *arguments):
        """Keep the test output quiet."""


@pytest.fixture
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
    server.folder, server.cut = folder, -1
    (folder / "one.csv").write_bytes(ONE)
    (folder / "two.csv").write_bytes(TWO)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def fetch(server, tmp_path, monkeypatch):
    """Run the script's main on two small files, as if from the command line."""
    files = {"one.csv": git_sha1(ONE), "two.csv": git_sha1(TWO)}
    monkeypatch.setattr(download, "FILES", files)

    def run(*arguments, url=f"http://127.0.0.1:{server.server_port}"):
        command = ["download.py", "--out", str(tmp_path), "--url", url, *arguments]
        monkeypatch.setattr(sys, "argv", command)
        download.main()

    return run


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_fetches_all_and_then_asks_no_more(fetch, server, tmp_path):
    fetch()
    assert (tmp_path / "one.csv").read_bytes() == ONE
    assert (tmp_path / "two.csv").read_bytes() == TWO
    assert names(tmp_path) == ["one.csv", "two.csv"]
    server.folder.rename(tmp_path / "gone")
    fetch()


@pytest.mark.parametrize(
    ("name", "content", "cut", "facts"),
    [
        ("one.csv", ONE[:-1], -1, ("is not this course's file", "another fork")),
        ("one.csv", ONE, 1000, ("1000 bytes read", "data/practice")),
    ],
)
def test_what_is_not_the_whole_course_file_is_not_kept(
    fetch, server, tmp_path, name, content, cut, facts
):
    server.cut = cut
    (server.folder / name).write_bytes(content)
    with one_line_error(name, *facts):
        fetch("--only", name)
    assert names(tmp_path) == []


def test_refuses_a_wrong_file_and_leaves_it_alone(fetch, tmp_path):
    (tmp_path / "two.csv").write_bytes(b"mine")
    with one_line_error("two.csv is not ", "delete it"):
        fetch()
    assert (tmp_path / "two.csv").read_bytes() == b"mine"
    assert (tmp_path / "one.csv").read_bytes() == ONE


def test_a_server_that_never_answers_is_given_up(fetch, monkeypatch, tmp_path):
    monkeypatch.setattr(download, "SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with one_line_error("cannot fetch one.csv", "timed out"):
            fetch(url=f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert names(tmp_path) == []


@pytest.mark.skipif(data_folder() == PRACTICE_DATA, reason="set MINBERT_DATA to the course files")
def test_the_real_files_are_recognised():
    here = [path for name in download.FILES if (path := data_folder() / name).is_file()]
    assert here
    for path in here:
        assert git_sha1(path.read_bytes()) == download.FILES[path.name]
