"""A short life with everything in it, for the sanitized builds too: the log must hold no sanitizer report."""
import json
import socket
import unittest

from fasteep import FIXTURE, TINY, Server, eventually, in_parallel

REPORTS = ("AddressSanitizer", "ThreadSanitizer", "LeakSanitizer", "runtime error:", "CHECK(")


class Small(unittest.TestCase):
    def live(self, model, *flags):
        with Server(model, *flags) as server:
            chat = server.chat("What is 2 + 2?", max_tokens=12)
            self.assertTrue(chat["choices"][0]["message"]["content"])
            got = in_parallel(lambda i: server.complete(f"Say {i} words", max_tokens=6, temperature=0.8, seed=i,
                                                        logprobs=2, ignore_eos=True), range(8))
            self.assertTrue(all(len(g["ids"]) == 6 for g in got))
            again = server.complete("Say 3 words", max_tokens=6, temperature=0.8, seed=3, ignore_eos=True)
            self.assertEqual(again["digests"], got[3]["digests"])
            events = list(server.stream("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "Count from 1 to 9."}], "max_tokens": 8, "n": 2, "temperature": 0.5,
                "seed": 1, "stream_options": {"include_usage": True}}))
            self.assertEqual(events[-1], "[DONE]")
            self.assertIn("usage", events[-2])
            self.assertEqual(server.post("/v1/completions", b'{"prompt": "\xff"}')[0], 400)
            self.gone_client(server)
            self.assertEqual(server.terminate(), 0)
            log = server.log()
        for report in REPORTS:
            self.assertNotIn(report, log)

    def gone_client(self, server):
        data = json.dumps({"prompt": "x", "max_tokens": 300, "ignore_eos": True, "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(data) + data)
            s.recv(100)
        eventually(lambda: server.metric("vllm:num_requests_running") == 0)

    def test_bundled_model_on_two_ranks(self):
        self.live(TINY, "--ep-size", "2", "--threads-per-rank", "2")

    def test_fixture_in_float32_on_three_ranks(self):
        self.live(FIXTURE, "--ep-size", "3", "--dtype", "float32", "--num-redundant-experts", "2")


if __name__ == "__main__":
    unittest.main()
