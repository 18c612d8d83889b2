"""lily doctor, info, synth and bench: figures that add up, damage that is noticed."""
import json
import sys
import unittest

from harness import POCKET, QUICK, Case, lily, main, pocket_copy, replace, scratch

GIB = 1 << 30
WEIGHTS_35B = 19.51e9
LONGEST = 262_144


@unittest.skipIf(QUICK, "every call tests the backends too, minutes with sanitizers for a sum")
class MemoryPlan(Case):
    def plan(self, memory, *more):
        return self.succeeds("doctor", "--json", "--spec", "35b", "--memory", memory, *more).json()["plan"]

    def test_sixteen_gigabytes_are_too_few_and_the_plan_says_what_would_help(self):
        plan = self.plan("16G")
        self.assertFalse(plan["fits"])
        self.assertGreater(plan["missing_bytes"], 19.5e9 - 16 * GIB)
        self.assertTrue(plan["advice"])

    def test_from_twenty_four_on_it_fits_and_the_figures_add_up(self):
        contexts = []
        for memory in ("24G", "32GiB", "48G"):
            with self.subTest(memory):
                plan = self.plan(memory)
                self.assertTrue(plan["fits"])
                self.assertAlmostEqual(plan["weights_bytes"] / WEIGHTS_35B, 1.0, places=3)
                self.assertEqual(plan["kv_bytes_per_token"], 20_480)
                self.assertAlmostEqual(plan["state_bytes"] / (2 * 64.4e6), 1.0, delta=0.03)
                parts = ("weights_bytes", "state_bytes", "kv_bytes", "scratch_bytes", "reserve_bytes")
                self.assertEqual(plan["total_bytes"], sum(plan[part] for part in parts))
                self.assertEqual(plan["kv_bytes"], plan["context_tokens"] * plan["kv_bytes_per_token"])
                self.assertLessEqual(plan["total_bytes"], plan["memory_bytes"])
                contexts.append(plan["context_tokens"])
        self.assertEqual(contexts, sorted(contexts))
        self.assertEqual(contexts[-1], LONGEST)

    def test_a_context_that_is_asked_for_is_planned(self):
        self.assertFalse(self.plan("24G", "--context", LONGEST)["fits"])
        self.assertEqual(self.plan("24G", "--context", 1000)["context_tokens"], 1000)

    def test_sizes_are_read_as_they_are_written(self):
        for text, size in {"24G": 24 * GIB, "24GiB": 24 * GIB, "24gb": 24 * 10**9, "16000M": 16000 << 20, "1.5T": 3 << 39}.items():
            self.assertEqual(self.plan(text)["memory_bytes"], size, text)

    def test_the_table_says_the_same(self):
        table = self.succeeds("doctor", "--spec", "35b", "--memory", "16G").out
        self.assertIn("it does not fit", table)
        self.assertIn("what would help", table)
        self.assertIn("19.5 GB", table)


class Doctor(Case):
    def test_machine_backends_and_self_test(self):
        got = self.succeeds("doctor", "--json").json()
        listed = {b["name"]: b for b in got["backends"]}
        self.assertEqual(list(listed), ["cpu", "metal", "cuda", "emulator", "reference"])
        if sys.platform != "darwin":
            self.assertEqual(listed["metal"], {"name": "metal", "available": False, "description": "this build has no Metal: it is part of macOS"})
        available = {name for name, b in listed.items() if b["available"]}
        self.assertGreaterEqual(available, {"cpu", "emulator", "reference"})
        self.assertGreater(got["machine"]["cores"], 0)
        self.assertGreater(got["machine"]["memory_bytes"], GIB)
        self.assertTrue(got["machine"]["cache_folder"].startswith(str(scratch)))
        self.assertTrue(got["self_test"]["passed"])
        tests = {t["backend"]: t["detail"] for t in got["self_test"]["tests"]}
        self.assertEqual(set(tests), available)
        self.assertEqual((tests["cpu"], tests["reference"]), ("21 - 15 = 6",) * 2)
        self.assertRegex(tests["emulator"], r"^21 - 15 = 6  \([1-9]\d* kernels in [1-9]\d* stages a token\)$")
        self.assertTrue(got["plan"]["fits"])

    def test_a_wrong_model_fails_the_part_that_needs_it(self):
        got = lily("doctor", "--json", "--model", scratch / "nowhere")
        self.assertEqual(got.status, 3)
        self.assertIn("nowhere", got.json()["plan"]["error"])
        self.assertTrue(got.json()["self_test"]["passed"])

    def test_damage_to_the_image_is_found_by_verify(self):
        folder = pocket_copy("verified")
        self.succeeds("run", "--model", folder, "-p", "Hi", "--greedy", "--max-tokens", "1")
        good = self.succeeds("doctor", "--json", "--verify", "--model", folder).json()["image"]
        self.assertTrue(good["good"])
        image = next(folder.glob(".lily/*.lilyimage"))
        data = bytearray(image.read_bytes())
        data[len(data) // 2] ^= 1
        replace(image, bytes(data))
        bad = lily("doctor", "--json", "--verify", "--model", folder)
        self.assertEqual(bad.status, 5)
        self.assertEqual(len(bad.json()["image"]["bad_blocks"]), 1)
        self.assertTrue(bad.json()["image"]["bad_tensors"])


class Info(Case):
    def test_what_the_pocket_is(self):
        got = self.succeeds("info", "--json").json()
        self.assertEqual((got["shape"]["layers"], got["shape"]["delta_layers"], got["shape"]["experts"]), (8, 6, 16))
        self.assertAlmostEqual(got["parameters"] / 28.7e6, 1.0, places=2)
        self.assertEqual(sum(part["parameters"] for part in got["parts"]), got["parameters"])
        self.assertIn("mtp.safetensors", json.dumps(got["left_out"]) + "mtp.safetensors" * any("draft" in i["name"] for i in got["left_out"]))
        self.assertTrue(got["plan"]["fits"])
        self.assertIn(str(POCKET), self.succeeds("info").out)

    def test_a_vision_tower_is_left_out_and_told(self):
        folder = pocket_copy("vision", without=["model.safetensors.index.json"])
        header = json.dumps({"vision_tower.patch_embed.weight": {"dtype": "BF16", "shape": [1024, 512], "data_offsets": [0, 1 << 20]}}).encode()
        (folder / "model-vision.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(1 << 20))
        index = json.loads((POCKET / "model.safetensors.index.json").read_text())
        index["weight_map"]["vision_tower.patch_embed.weight"] = "model-vision.safetensors"
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        got = self.succeeds("info", folder, "--json").json()
        vision = [item for item in got["left_out"] if "vision" in item["name"]]
        self.assertEqual(vision[0]["bytes"], 1 << 20)
        self.assertEqual(got["image_bytes"], self.succeeds("info", "--json").json()["image_bytes"])
        answer = self.succeeds("run", "--model", folder, "-p", "What is the capital of France?", "--greedy", "--no-thinking")
        self.assertEqual(answer.out, "The capital of France is Paris.\n")


class SynthAndBench(Case):
    def test_a_synthetic_checkpoint_loads_and_computes(self):
        folder = scratch / "synthetic"
        self.succeeds("synth", "--spec", "pocket", "--layers", "4", "--out", folder, "--seed", "7")
        self.assertEqual(self.succeeds("info", folder, "--json").json()["shape"]["layers"], 4)
        got = self.succeeds("run", "--model", folder, "-p", "Hi", "--max-tokens", "3", "--seed", "1", "--json").json()
        self.assertGreater(got["usage"]["completion_tokens"], 0)
        self.assertEqual(lily("synth", "--spec", "pocket", "--out", folder).status, 2)  # Not empty any more.

    def test_bench_states_rates_and_shares(self):
        got = self.succeeds("bench", "--json", "--prefill", "16,32", "--decode", "8", "--depth", "8,64", "--threads", "2",
                            "--repeat", "2").json()
        self.assertEqual([row["tokens"] for row in got["prefill"]], [16, 32])
        self.assertEqual([row["depth"] for row in got["decode"]], [8, 64])
        for rate in [row["tokens_per_second"] for row in got["prefill"] + got["decode"]]:
            self.assertTrue(0 < rate["min"] <= rate["median"] <= rate["max"])
        for row in got["decode"]:
            self.assertAlmostEqual(row["share_of_read_rate"], row["bytes_per_second"] / row["read_bytes_per_second"])
            self.assertTrue(1 <= row["barriers_per_token"] <= 9 * 8 + 8)  # The pocket has 8 layers.
        self.assertGreater(got["memory"]["resident_bytes"], got["memory"]["anonymous_bytes"])

    def test_limits_are_measured(self):
        small = ("--mebibytes", "64", "--threads", "1", "--spec", "pocket", "--layers", "4", "--rows", "32", "--depth", "100", "--repeat", "2")
        got = self.succeeds("bench", "limits", "--json", *small).json()
        self.assertEqual((got["threads"], got["bytes"]), (1, 64 << 20))
        self.assertGreater(got["read_bytes_per_second"], 1e8)
        self.assertGreater(got["multiply_adds_per_second"], 1e8)
        self.assertEqual(got["provenance"]["backend"], "cpu")
        self.assertIn("--rows=32", got["provenance"]["options"])
        self.assertGreater(got["launches"]["pass_seconds"], 0)
        steps = {(step["step"], step["rows"]): step for step in got["steps"]}
        self.assertGreater(steps["head", 1]["bytes_per_second"], 0)
        self.assertGreater(steps["head, read only", 0]["bytes_per_second"], 0)
        self.assertGreater(steps["experts, up", 32]["multiply_adds_per_second"], 0)
        for kind, rows, position in (("decode", 1, 100), ("prefill", 32, 0)):
            table = got[kind]
            self.assertEqual((table["rows"], table["position"]), (rows, position))
            self.assertAlmostEqual(table["sum_seconds"], sum(row["seconds"] for row in table["kernels"]))
            calls = {row["steps"]: row["calls"] for row in table["kernels"]}
            self.assertEqual((calls["embed"], calls["gdn_scan"], calls["attention"], calls["route"]), (1, 3, 1, 4))
            for row in table["kernels"]:
                self.assertAlmostEqual(row["share"], row["floor_seconds"] / row["seconds"])

    def test_limits_that_cannot_be_measured_are_refused(self):
        for status, *flags in ((2, "--spec", "7b"), (2, "--rows", "2049"), (2, "--depth", "0"), (2, "--model", "x", "--spec", "pocket"),
                               (2, "--backend", "tpu"), (3, "--model", scratch / "nowhere"), (4, "--mechanism", "matrix_units=off"),
                               (2, "--isa", "avx1024")):
            self.assertEqual(lily("bench", "limits", "--mebibytes", "1", *flags).status, status, flags)


if __name__ == "__main__":
    main()
