"""A fasteep server under test: starts it, waits for readiness, talks to it, stops it. Standard library only."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = pathlib.Path(os.environ.get("FASTEEP_PROGRAM", ROOT / "build/relassert/fasteep"))
TINY = ROOT / "models/fasteep-tiny"
FIXTURE = ROOT / "tests/fixtures/qwen3_moe"
SLOW_FACTOR = float(os.environ.get("FASTEEP_TEST_SLOWDOWN", "1"))  # sanitized builds take longer


class ServerFailed(Exception):
    pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """with Server(TINY, "--ep-size", "4") as server: ..."""

    def __init__(self, model, *flags, wait=True, timeout=120, env=None):
        self.port = free_port()
        self.log_file = tempfile.NamedTemporaryFile(mode="w+", suffix=".log", prefix="fasteep_", delete=False)
        command = [str(PROGRAM), "serve", str(model), "--host", "127.0.0.1", "--port", str(self.port), *flags]
        self.process = subprocess.Popen(command, stdout=self.log_file, stderr=subprocess.STDOUT,
                                        env={**os.environ, **(env or {})})
        if wait:
            try:
                self.wait_ready(timeout * SLOW_FACTOR)
            except BaseException:
                self.kill()
                raise

    def wait_ready(self, timeout):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise ServerFailed(f"exit status {self.process.returncode}:\n{self.log()}")
            try:
                if self.get("/health")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise ServerFailed(f"not ready after {timeout} s:\n{self.log()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def log(self):
        return pathlib.Path(self.log_file.name).read_text(errors="replace")

    def connection(self, timeout=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOW_FACTOR)

    def get(self, path, headers=None):
        connection = self.connection(10)
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return response.status, body

    def post(self, path, body, headers=None, timeout=120):
        """-> (status, decoded JSON or text)"""
        connection = self.connection(timeout)
        data = body if isinstance(body, (bytes, str)) else json.dumps(body)
        connection.request("POST", path, data, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text

    def complete(self, prompt, **fields):
        """Token ids, digests and text of a completion; prompt is text or ids."""
        fields = {"temperature": 0, "max_tokens": 16, "return_token_ids": True, "return_logits_digest": True, **fields}
        status, body = self.post("/v1/completions", {"prompt": prompt, **fields})
        if status != 200:
            raise AssertionError(f"HTTP {status}: {body}")
        choice = body["choices"][0]
        return {"ids": choice["token_ids"], "digests": choice["logits_digests"], "text": choice["text"],
                "usage": body["usage"], "finish_reason": choice["finish_reason"]}

    def chat(self, question, **fields):
        fields = {"temperature": 0, "return_token_ids": True, **fields}
        status, body = self.post("/v1/chat/completions",
                                 {"messages": [{"role": "user", "content": question}], **fields})
        if status != 200:
            raise AssertionError(f"HTTP {status}: {body}")
        return body

    def stream(self, path, body):
        """Yields the decoded `data:` payloads of an SSE response; the last is "[DONE]"."""
        connection = self.connection()
        connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise AssertionError(f"HTTP {response.status}: {response.read()}")
        for line in response:
            text = line.decode().rstrip("\r\n")
            if text.startswith("data: "):
                payload = text[len("data: "):]
                yield payload if payload == "[DONE]" else json.loads(payload)
        connection.close()

    def metric(self, name, labels=""):
        """The sum of a metric's samples whose line contains `labels`."""
        total, found = 0.0, False
        for line in self.get("/metrics")[1].splitlines():
            match = re.match(r"^([a-zA-Z_:0-9]+)(\{.*\})? (\S+)$", line)
            if match and match.group(1) == name and labels in (match.group(2) or ""):
                total, found = total + float(match.group(3)), True
        if not found:
            raise AssertionError(f"no metric {name}{labels}")
        return total

    def rank_pids(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(p) for p in children]

    def cpu_seconds(self):
        """Of the controller and its ranks, so far."""
        total = 0
        for pid in [self.process.pid, *self.rank_pids()]:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def terminate(self, timeout=60):
        """SIGTERM, then the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout * SLOW_FACTOR)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log_file.close()
        os.unlink(self.log_file.name)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20 * SLOW_FACTOR)
            except subprocess.TimeoutExpired:
                pass
        self.kill()


def in_parallel(function, items, workers=64):
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))


def eventually(condition, timeout=20, what="condition"):
    """Waits until condition() is true; polling, no assumption about speed but a generous bound."""
    end = time.monotonic() + timeout * SLOW_FACTOR
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come true within {timeout * SLOW_FACTOR} s")


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state != "Z"
    except OSError:
        return False
