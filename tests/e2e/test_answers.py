"""The bundled model gives the reference's answers over HTTP: exactly in float32, in score in bfloat16."""
import json
import unittest

from fasteep import TINY, Server, in_parallel

EVAL = [json.loads(line) for line in (TINY / "eval.jsonl").read_text().splitlines()]


def ask(server, case):
    limits = {"max_tokens": case.get("max_tokens", 64)}
    choice = server.chat(case["question"], **limits)["choices"][0]
    return choice["token_ids"], choice["message"]["content"]


class Answers(unittest.TestCase):
    def test_float32_ids_are_the_references(self):
        with Server(TINY, "--dtype", "float32", "--ep-size", "4") as server:
            answers = in_parallel(lambda case: ask(server, case), EVAL, 32)
        self.assertEqual(len(EVAL), 318)
        for case, (ids, text) in zip(EVAL, answers):
            self.assertEqual(ids, case["reference_ids"], case["question"])
            self.assertEqual(text.strip(), case["reference"].strip(), case["question"])

    def test_bfloat16_score_is_within_a_point(self):
        judged = [case for case in EVAL if case["answer"] is not None]
        with Server(TINY, "--dtype", "bfloat16", "--ep-size", "3") as server:
            answers = in_parallel(lambda case: ask(server, case), judged, 32)
        right = sum(text.strip() == case["answer"] for case, (_, text) in zip(judged, answers))
        recorded = sum(case["reference"] == case["answer"] for case in judged)
        self.assertLessEqual(abs(right - recorded) / len(judged), 0.01, f"{right} right, {recorded} recorded")


if __name__ == "__main__":
    unittest.main()
