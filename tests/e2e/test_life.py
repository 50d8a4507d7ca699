"""Life of an instance: sizes, idleness, draining, death of a rank, closed connections, bad starts."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from fasteep import FIXTURE, PROGRAM, TINY, Server, ServerFailed, alive, eventually, in_parallel

LONG = {"prompt": "Count from 1 to 9.", "max_tokens": 3000, "ignore_eos": True}


def raw_stream(server, body):
    """A socket on which a stream has begun (its first token has arrived)."""
    data = json.dumps({**body, "stream": True}).encode()
    s = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
              b"Content-Length: %d\r\n\r\n" % len(data) + data)
    seen = b""
    while b"data: " not in seen:
        piece = s.recv(65536)
        if not piece:
            raise AssertionError(seen)
        seen += piece
    return s


class Sizes(unittest.TestCase):
    def test_any_number_of_ranks(self):
        expected = None
        for ranks in (1, 5, 16, 32):
            with self.subTest(ranks=ranks), Server(TINY, "--ep-size", str(ranks)) as server:
                self.assertEqual(len(server.rank_pids()), ranks)
                got = in_parallel(lambda q: server.complete(q, max_tokens=8)["ids"], ["What is 4 + 4?"] * 4 + ["Hello"])
                expected = expected or got
                self.assertEqual(got, expected)


class Idle(unittest.TestCase):
    def test_eight_idle_ranks_use_no_cpu(self):
        with Server(TINY, "--ep-size", "8") as server:
            server.complete("Hello", max_tokens=4)
            time.sleep(1)
            before, start = server.cpu_seconds(), time.monotonic()
            time.sleep(10)
            used, wall = server.cpu_seconds() - before, time.monotonic() - start
            self.assertLessEqual(used / wall, 0.01, f"{used:.2f} s of CPU in {wall:.1f} s")


class Ending(unittest.TestCase):
    def test_sigterm_drains(self):
        with Server(TINY, "--ep-size", "2") as server:
            pids = server.rank_pids()
            result = []
            thread = threading.Thread(target=lambda: result.append(server.complete("Hello", max_tokens=400, ignore_eos=True)))
            thread.start()
            eventually(lambda: server.metric("vllm:num_requests_running") > 0 or result)
            self.assertEqual(server.terminate(), 0)
            thread.join()
            self.assertEqual(len(result[0]["ids"]), 400)
            self.assertFalse([p for p in pids if alive(p)])

    def test_second_sigterm_stops_at_once(self):
        with Server(TINY, "--ep-size", "2") as server:
            pids = server.rank_pids()
            s = raw_stream(server, LONG)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            self.assertIsNone(server.process.poll(), "a stream is running: draining must wait for it")
            server.process.send_signal(signal.SIGTERM)
            status = server.process.wait(20)
            self.assertNotEqual(status, -signal.SIGKILL)
            self.assertFalse([p for p in pids if alive(p)])
            s.close()

    def test_controller_killed_leaves_no_rank(self):
        with Server(TINY, "--ep-size", "3") as server:
            pids = server.rank_pids()
            server.process.kill()
            server.process.wait()
            eventually(lambda: not [p for p in pids if alive(p)], what="ranks gone")


class RankDeath(unittest.TestCase):
    def test_streams_end_once_and_status_says_so(self):
        with Server(TINY, "--ep-size", "3") as server:
            streams = []

            def run(i):
                events = list(server.stream("/v1/completions", {**LONG, "prompt": f"Tell me a story about {i}."}))
                streams.append(events)

            threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
            for t in threads:
                t.start()
            eventually(lambda: server.metric("vllm:num_requests_running") >= 6)
            os.kill(server.rank_pids()[1], signal.SIGKILL)
            for t in threads:
                t.join(60)
            self.assertEqual(len(streams), 6, "a stream hangs")
            for events in streams:
                self.assertEqual(events[-1], "[DONE]")
                errors = [e for e in events if isinstance(e, dict) and "error" in e]
                self.assertEqual(len(errors), 1)
                self.assertEqual(errors[0]["error"]["type"], "rank_lost")
            self.assertEqual(server.process.wait(30), 3)
            self.assertIn("rank", server.log())

    def test_with_a_replica_of_everything_the_rest_serves_on(self):
        with Server(TINY, "--ep-size", "2", "--num-redundant-experts", "32") as server:
            before = server.complete("What is 12 + 30?")
            os.kill(server.rank_pids()[1], signal.SIGKILL)
            eventually(lambda: len(server.rank_pids()) == 1)
            after = in_parallel(lambda _: server.complete("What is 12 + 30?"), range(8))
            self.assertEqual({tuple(a["digests"]) for a in after}, {tuple(before["digests"])})
            self.assertEqual(server.get("/health")[0], 200)
            self.assertEqual(server.terminate(), 3)


class Connections(unittest.TestCase):
    def test_closed_connection_frees_kv(self):
        with Server(TINY, "--ep-size", "1") as server:
            s = raw_stream(server, LONG)
            self.assertEqual(server.metric("vllm:num_requests_running"), 1)
            s.close()
            eventually(lambda: server.metric("vllm:num_requests_running") == 0)
            eventually(lambda: server.metric("vllm:kv_cache_usage_perc") == 0)

    def test_full_queue_is_429_with_retry_after(self):
        with Server(TINY, "--ep-size", "1", "--max-num-seqs", "1", "--max-waiting-requests", "2") as server:
            sockets = [raw_stream(server, LONG)]
            statuses = []

            def ask(_):
                connection = server.connection(20)
                connection.request("POST", "/v1/completions", json.dumps({**LONG, "max_tokens": 2}),
                                   {"Content-Type": "application/json"})
                response = connection.getresponse()
                statuses.append((response.status, response.getheader("Retry-After")))
                connection.close()

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
            for t in threads:
                t.start()
            eventually(lambda: len(statuses) >= 6)
            self.assertIn((429, "1"), statuses)
            for s in sockets:
                s.close()
            for t in threads:
                t.join(60)

    def test_a_thousand_idle_connections_and_a_slow_client(self):
        with Server(TINY, "--ep-size", "2") as server:
            idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(1000)]
            slow = socket.create_connection(("127.0.0.1", server.port))
            slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Le")
            self.assertEqual(len(server.complete("Hello", max_tokens=4)["ids"]), 4)
            for s in [*idle, slow]:
                s.close()

    def test_a_thousand_idle_streams(self):
        with Server(TINY, "--ep-size", "1", "--max-num-seqs", "1", "--max-waiting-requests", "2000") as server:
            head = raw_stream(server, {**LONG, "max_tokens": 4000})
            data = json.dumps({**LONG, "max_tokens": 2, "stream": True}).encode()
            waiting = []
            for _ in range(1000):
                s = socket.create_connection(("127.0.0.1", server.port))
                s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                          b"Content-Length: %d\r\n\r\n" % len(data) + data)
                waiting.append(s)
            eventually(lambda: server.metric("vllm:num_requests_waiting") >= 900, timeout=60)
            self.assertEqual(server.get("/health")[0], 200)
            for s in waiting:
                s.close()
            eventually(lambda: server.metric("vllm:num_requests_waiting") == 0, timeout=60)
            head.close()


class BadInput(unittest.TestCase):
    def refused(self, model, *flags):
        """The message of a start that must fail with status 1 or 2."""
        with self.assertRaises(ServerFailed) as caught:
            with Server(model, *flags, timeout=30):
                pass
        self.assertRegex(str(caught.exception), r"exit status [12]:")
        return str(caught.exception)

    def copy(self, source=FIXTURE):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="fasteep_bad_"))
        self.addCleanup(shutil.rmtree, folder)
        for f in source.iterdir():
            if f.is_file() and "expected" not in f.name:
                shutil.copy(f, folder / f.name)
                (folder / f.name).chmod(0o644)
        return folder

    def test_truncated_checkpoint(self):
        folder = self.copy()
        data = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(data[: len(data) // 2])
        self.assertIn("model.safetensors", self.refused(folder))

    def test_missing_tensors_are_all_listed(self):
        folder = self.copy()
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes().replace(b"layers.1.self_attn.q_norm.weight", b"layers.1.self_attn.q_norm.weighX")
                         .replace(b"layers.2.self_attn.k_norm.weight", b"layers.2.self_attn.k_norm.weighX"))
        text = self.refused(folder)
        for name in ("layers.1.self_attn.q_norm.weight", "layers.2.self_attn.k_norm.weight", "q_norm.weighX"):
            self.assertIn(name, text)

    def test_config_that_changes_the_mathematics(self):
        for change in ({"hidden_act": "gelu"}, {"use_sliding_window": True, "sliding_window": 64},
                       {"rope_scaling": {"rope_type": "mystery", "factor": 2}}, {"quantization_config": {"quant_method": "gptq"}},
                       {"model_type": "llama"}):
            with self.subTest(change=change):
                folder = self.copy()
                config = json.loads((folder / "config.json").read_text())
                (folder / "config.json").write_text(json.dumps({**config, **change}))
                text = self.refused(folder)
                self.assertIn(next(iter(change)), text)

    def test_tokenizer_without_merges(self):
        folder = self.copy()
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        del tokenizer["model"]["merges"]
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.assertIn("merges", self.refused(folder))

    def test_template_error_names_the_line(self):
        folder = self.copy()
        (folder / "chat_template.jinja").write_text("{% for m in messages %}\n{{ m.content }\n{% endfor %}")
        self.assertIn("line", self.refused(folder))

    def test_raise_exception_is_a_400(self):
        folder = self.copy()
        (folder / "chat_template.jinja").write_text("{{ raise_exception('roles must alternate') }}")
        with Server(folder) as server:
            status, body = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})
            self.assertEqual(status, 400)
            self.assertIn("roles must alternate", body["error"]["message"])
            self.assertEqual(len(server.complete("x", max_tokens=2)["ids"]), 2)

    def test_port_in_use(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            text = self.refused(TINY, "--port", str(s.getsockname()[1]))
        self.assertIn("in use", text)

    def test_not_enough_memory_is_said_before_loading(self):
        text = self.refused(TINY, "--device-memory", "4MiB")
        self.assertIn("--device-memory", text)

    def test_no_such_model_and_bad_flags(self):
        self.assertIn("/nonexistent", self.refused("/nonexistent"))
        self.assertIn("max-num-seqs", self.refused(TINY, "--max-num-seq", "3"))
        self.assertIn("out of range", self.refused(TINY, "--max-num-seqs", "0"))
        config = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        config.write("max-num-seqss: 3\n")
        config.flush()
        self.assertIn("did you mean", self.refused(TINY, "--config", config.name))

    def test_requests_that_are_refused_while_serving(self):
        with Server(TINY, "--ep-size", "2", "--max-model-len", "128") as server:
            def status(body, **kw):
                return server.post("/v1/completions", body, **kw)
            self.assertEqual(status({"prompt": "x " * 400, "max_tokens": 4})[0], 400)
            self.assertEqual(status({"prompt": [1, 99999999]})[0], 400)
            self.assertEqual(status(b'{"prompt": "\xff\xfe"}')[0], 400)
            self.assertEqual(status('{"prompt": ' + "[" * 100000 + "]" * 100000 + "}")[0], 400)
            big = status(json.dumps({"prompt": "a " * 5_000_000}))
            self.assertIn(big[0], (400, 413))
            code, body = status({"prompt": "x", "temperature": "hot"})
            self.assertEqual((code, body["error"]["param"]), (400, "temperature"))
            self.assertEqual(server.post("/v1/completions", {"prompt": "x", "model": "nobody"})[0], 404)
            self.assertEqual(len(server.complete("Hello", max_tokens=4)["ids"]), 4)


class CommandLine(unittest.TestCase):
    def run_program(self, *arguments):
        return subprocess.run([str(PROGRAM), *arguments], text=True, capture_output=True, timeout=60)

    def test_inspect_and_synth(self):
        shown = self.run_program("model", "inspect", str(TINY))
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("qwen3_moe", shown.stdout)
        folder = tempfile.mkdtemp(prefix="fasteep_synth_")
        self.addCleanup(shutil.rmtree, folder)
        made = self.run_program("model", "synth", "--preset", "tiny", "--seed", "3", f"{folder}/m")
        self.assertEqual(made.returncode, 0, made.stderr)
        with Server(f"{folder}/m", "--ep-size", "2") as server:
            self.assertEqual(len(server.complete("Hello", max_tokens=4, ignore_eos=True)["ids"]), 4)
        again = self.run_program("model", "synth", "--preset", "tiny", f"{folder}/m")
        self.assertNotEqual(again.returncode, 0)
        self.assertIn(folder, again.stderr)

    def test_unknown_command_suggests(self):
        result = self.run_program("serv", str(TINY))
        self.assertEqual(result.returncode, 2)
        self.assertIn("serve", result.stderr)


if __name__ == "__main__":
    unittest.main()
