"""Promise 1 over HTTP: ids and the bits of the logits are equal whatever the instance's shape and company."""
import json
import random
import unittest

from fasteep import TINY, Server, in_parallel

QUESTIONS = [json.loads(line)["question"] for line in (TINY / "eval.jsonl").read_text().splitlines()]
FEW_BLOCKS = ("--max-num-seqs", "24", "--num-kv-blocks", "80", "--max-model-len", "1024")


def mixed_requests(count, seed=7):
    """Short and long, greedy and sampled, some sharing prefixes."""
    rng = random.Random(seed)
    requests = []
    for i in range(count):
        prompt = " ".join(rng.choice(QUESTIONS) for _ in range(rng.choice([1, 1, 2, 6])))
        if i % 5 == 4:
            prompt = requests[-1]["prompt"] + " and " + rng.choice(QUESTIONS)
        request = {"prompt": prompt, "max_tokens": rng.choice([4, 12, 100]), "ignore_eos": True}
        if i % 2:
            request |= {"temperature": 0.9, "top_p": 0.9, "top_k": 50, "seed": 1000 + i}
        requests.append(request)
    return requests


def answers(requests, *flags, together=True):
    with Server(TINY, *flags) as server:
        ask = lambda r: server.complete(r["prompt"], **{k: v for k, v in r.items() if k != "prompt"})
        results = in_parallel(ask, requests, len(requests)) if together else [ask(r) for r in requests]
        preemptions = server.metric("vllm:num_preemptions_total")
        hits = server.metric("vllm:prefix_cache_hits_total")
    return [(r["ids"], r["digests"]) for r in results], preemptions, hits


class SameTokens(unittest.TestCase):
    def check(self, dtype):
        requests = mixed_requests(64)
        base = ("--dtype", dtype, "--seed", "1")
        alone, _, _ = answers(requests, *base, "--ep-size", "1", "--no-enable-prefix-caching", together=False)
        self.assertTrue(all(ids for ids, _ in alone))
        self.assertGreater(len({tuple(ids) for ids, _ in alone}), 32, "the requests must differ to mean anything")
        variants = {
            "batch of 64": ["--ep-size", "1"],
            "2 threads": ["--ep-size", "1", "--threads-per-rank", "2"],
            "EP 2": ["--ep-size", "2"],
            "EP 3, redundant experts": ["--ep-size", "3", "--num-redundant-experts", "5"],
            "EP 4, chunk 7": ["--ep-size", "4", "--max-prefill-chunk", "7"],
            "EP 8, chunk 64": ["--ep-size", "8", "--max-prefill-chunk", "64"],
            "chunk 1": ["--ep-size", "2", "--max-prefill-chunk", "1"],
        }
        for name, flags in variants.items():
            with self.subTest(name, dtype=dtype):
                got, _, _ = answers(requests, *base, *flags)
                self.assertEqual(got, alone)
        with self.subTest("preempted", dtype=dtype):
            got, preemptions, _ = answers(requests, *base, *FEW_BLOCKS, "--ep-size", "1")
            self.assertGreater(preemptions, 0, "nothing was preempted: the test shows nothing")
            self.assertEqual(got, alone)
        with self.subTest("prefix cache hits", dtype=dtype):
            again, _, hits = answers(requests + requests, *base, "--ep-size", "1", together=False)
            self.assertGreater(hits, 0, "no prefix was hit: the test shows nothing")
            self.assertEqual(again, alone + alone)

    def test_float32(self):
        self.check("float32")

    def test_bfloat16(self):
        self.check("bfloat16")


if __name__ == "__main__":
    unittest.main()
