"""data/download.py against a local server that misbehaves on demand."""

import hashlib
import re
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support import ROOT, as_process, assert_refused, load_script, one_line_error

from training.files.errors import InputError

ONE = bytes(range(256)) * 2000  # 512,000 bytes: several reads
TWO = b"\tid\tsentence\n" * 5000


download = load_script("data/download.py")


class Handler(BaseHTTPRequestHandler):
    """Serves ``server.files``; what the server should do wrong is in its other attributes."""

    def do_HEAD(self):
        """Say whether the file is there."""
        self.send_response(200 if self.path[1:] in self.server.files else 404)
        self.end_headers()

    def do_GET(self):
        """Send the file or what was asked of it, with the fault in turn."""
        server, name, asked = self.server, self.path[1:], self.headers.get("Range")
        server.log.append((name, asked))
        if server.statuses:
            return self.plain(server.statuses.pop(0))
        if name not in server.files:
            return self.plain(404)
        body, start = server.files[name], 0
        if asked and not server.ignores_range:
            start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])
            if start >= len(body):
                return self.plain(416)
            self.send_response(206)
            shown = start + server.range_offset
            self.send_header("Content-Range", f"bytes {shown}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if server.tells_length:
            self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        cut = server.cuts.pop(0) if server.cuts else len(body)
        self.wfile.write(body[start : start + cut])

    def plain(self, status):
        """Send a status and no body."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        """Keep the test output quiet."""


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # a client that has read enough hangs up
    server.files = {"one.csv": ONE, "two.csv": TWO}
    server.log, server.statuses, server.cuts = [], [], []
    server.ignores_range, server.range_offset, server.tells_length = False, 0, True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def fetch(server, tmp_path, monkeypatch):
    """Run the script's main on two small files, as if from the command line."""
    files = (
        download.CourseFile("one.csv", len(ONE), hashlib.sha256(ONE).hexdigest()),
        download.CourseFile("two.csv", blob_sha1=git_sha1(TWO)),
    )
    monkeypatch.setattr(download, "FILES", files)
    monkeypatch.setattr(download, "RETRY_SECONDS", 0)

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
    asked = len(server.log)
    fetch()
    assert len(server.log) == asked


@pytest.mark.parametrize(
    ("name", "part", "fault", "asked"),
    [
        ("two.csv", None, {}, [None]),
        ("one.csv", ONE[:1000], {}, ["bytes=1000-"]),
        ("two.csv", TWO, {}, []),  # complete: only renamed
        ("one.csv", b"x" * 1000, {}, ["bytes=1000-", None]),  # wrong, so that it starts over
        ("one.csv", b"x" * len(ONE), {}, ["bytes=512000-", None]),
        ("one.csv", ONE[:1000], {"ignores_range": True}, ["bytes=1000-"]),
        ("one.csv", ONE[:1000], {"range_offset": 5}, ["bytes=1000-", None]),
        ("one.csv", None, {"cuts": [200_000]}, [None, "bytes=200000-"]),  # goes on from there
    ],
)
def test_starts_goes_on_or_starts_over(fetch, server, tmp_path, name, part, fault, asked):
    if part is not None:
        (tmp_path / f"{name}.part").write_bytes(part)
    vars(server).update(fault)
    fetch("--only", name)
    assert server.log == [(name, range_) for range_ in asked]
    assert (tmp_path / name).read_bytes() == server.files[name]
    assert names(tmp_path) == [name]


def test_keeps_the_partial_file_when_it_gives_up(fetch, server, tmp_path):
    server.cuts = [1000] * download.ATTEMPTS
    with pytest.raises(InputError, match=r"cannot fetch.*cut off.*run this again to resume"):
        fetch("--only", "one.csv")
    assert names(tmp_path) == ["one.csv.part"]
    assert (tmp_path / "one.csv.part").read_bytes() == ONE[: 1000 * download.ATTEMPTS]
    fetch("--only", "one.csv")
    assert (tmp_path / "one.csv").read_bytes() == ONE


def test_retries_after_a_server_error_but_not_for_ever(fetch, server, tmp_path):
    server.statuses = [500, 503]
    fetch("--only", "one.csv")
    assert (tmp_path / "one.csv").read_bytes() == ONE
    server.statuses = [500] * 99
    with pytest.raises(InputError, match="the server says 500"):
        fetch("--only", "two.csv")
    assert len(server.log) == 3 + download.ATTEMPTS


def test_a_file_the_server_lacks_does_not_stop_the_others(fetch, server, tmp_path):
    del server.files["one.csv"]
    with one_line_error("one.csv: the server says 404"):
        fetch()
    assert names(tmp_path) == ["two.csv"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("one.csv", b"x" * len(ONE), "its sha256 differs"),
        ("two.csv", b"x" * len(TWO), "its git blob sha1 differs"),
        ("one.csv", ONE[:-1], "511,999 bytes instead of 512,000"),
    ],
)
@pytest.mark.parametrize("tells_length", [True, False])
def test_refuses_what_is_not_the_course_file(
    fetch, server, tmp_path, name, content, message, tells_length
):
    server.files[name], server.tells_length = content, tells_length
    with one_line_error(name, message, "another fork"):
        fetch("--only", name)
    assert names(tmp_path) == []


def test_reads_no_further_than_the_file_can_be_long(fetch, server, tmp_path, monkeypatch):
    server.files["two.csv"], server.tells_length = b"x" * 10_000_000, False
    monkeypatch.setattr(download, "LARGEST", 100_000)
    sizes = []

    def difference(self, path):
        sizes.append(path.stat().st_size)
        return "it differs"

    monkeypatch.setattr(download.CourseFile, "difference", difference)
    with pytest.raises(InputError, match="differs"):
        fetch("--only", "two.csv")
    assert sizes == [100_001]


def test_refuses_a_wrong_file_and_leaves_it_alone(fetch, tmp_path):
    (tmp_path / "one.csv").write_bytes(b"mine")
    with one_line_error("one.csv is not ", " 4 bytes ", "delete it"):
        fetch()
    assert (tmp_path / "one.csv").read_bytes() == b"mine"
    assert (tmp_path / "two.csv").read_bytes() == TWO


def test_a_full_disk_is_not_taken_for_a_network_error(fetch, server, tmp_path):
    (tmp_path / "one.csv.part").mkdir()  # as unwritable as a full disk, for root as well
    with pytest.raises(InputError, match=r"cannot write .*one\.csv\.part"):
        fetch("--only", "one.csv")


def test_a_server_that_never_answers_is_given_up(fetch, monkeypatch, tmp_path):
    monkeypatch.setattr(download, "CONTACT_SECONDS", 0.1)
    monkeypatch.setattr(download, "CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(InputError, match=r"no answer within 0\.1 seconds"):
            fetch(url=f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert names(tmp_path) == []


@pytest.mark.parametrize("url", ["file:///etc/", "http://"])
def test_refuses_addresses_that_are_not_of_the_web(fetch, url):
    with pytest.raises(InputError, match="not an http:// or https:// address"):
        fetch(url=url)


def test_offline_it_says_in_one_line_what_to_do(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url, new = f"http://127.0.0.1:{port}/", tmp_path / "new"
    result = as_process(ROOT / "data/download.py", "--out", new, "--url", url, folder=tmp_path)
    assert_refused(result, url, "data/practice", str(new), "by hand", code=1)
    assert names(new) == []


def test_the_table_names_every_course_file_once_with_its_hash():
    stems = [
        f"{task}-{split}.csv"
        for task in ("ids-sst", "ids-cfimdb", "quora", "sts")
        for split in ("train", "dev", "test-student")
    ]
    assert sorted(file.name for file in download.FILES) == sorted(stems)
    for file in download.FILES:
        known = (file.size, file.sha256) if file.sha256 else file.blob_sha1
        assert re.fullmatch(r"[0-9a-f]{40}|\(\d+, '[0-9a-f]{64}'\)", str(known)), file.name


def test_the_real_files_are_recognised(real_data):
    here = [file for file in download.FILES if (real_data / file.name).is_file()]
    assert here
    assert {file.name: file.difference(real_data / file.name) for file in here} == {
        file.name: "" for file in here
    }
