"""What programs rely on beyond the values of single operations: run by `collspec gpu -- python -m unittest programs`."""

import copy
import io
import threading
import time
import unittest
from contextlib import redirect_stderr

import torch
from torch import nn

CUDA = torch.device("cuda")


class Modules(unittest.TestCase):
    """Modules with kernels of their own for CUDA give the results and gradients that they give on the CPU."""

    def compare(self, module, *inputs):
        inputs = [item.requires_grad_() if item.is_floating_point() else item for item in inputs]
        other = copy.deepcopy(module).to(CUDA)
        moved = [item.detach().to(CUDA).requires_grad_(item.requires_grad) for item in inputs]
        results = []
        for run, given in ((module, inputs), (other, moved)):
            out = run(*given)
            out = out[0] if isinstance(out, tuple) else out
            (out * torch.arange(out.numel(), dtype=out.dtype, device=out.device).reshape(out.shape).sin()).sum().backward()
            gradients = [item.grad for item in [*given, *run.parameters()] if item.requires_grad]
            results.append([item.detach().cpu() for item in [out, *gradients, *run.buffers()]])
        for expected, found in zip(*results):
            torch.testing.assert_close(found, expected)

    def test_recurrent(self):
        torch.manual_seed(0)
        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            for bias in (True, False):
                with self.subTest(kind.__name__, bias=bias):
                    self.compare(kind(5, 7, num_layers=2, bias=bias), torch.randn(4, 3, 5))

    def test_attention(self):
        torch.manual_seed(0)
        self.compare(nn.TransformerEncoderLayer(16, 4, dropout=0.0, batch_first=True), torch.randn(2, 5, 16))

    def test_softmax_from_half_to_single_precision(self):
        values = torch.linspace(-3, 3, 12).reshape(3, 4)
        for operation in (torch.softmax, torch.log_softmax):
            for half in (torch.float16, torch.bfloat16):
                with self.subTest(operation.__name__, half=half):
                    there = values.to(CUDA, half).requires_grad_()
                    here = values.to(half).float().requires_grad_()
                    found, expected = operation(there, 1, dtype=torch.float32), operation(here, 1)
                    for result in (found, expected):
                        (result * torch.arange(12.0, device=result.device).reshape(3, 4)).sum().backward()
                    self.assertEqual((found.dtype, there.grad.dtype), (torch.float32, half))
                    torch.testing.assert_close(found.cpu(), expected)
                    torch.testing.assert_close(there.grad.cpu(), here.grad.to(half))

    def test_attention_and_its_gradients_with_dropout_and_a_mask(self):
        torch.manual_seed(0)
        tensors = [torch.randn(2, 3, 8, 8) for _ in range(3)]
        bias = torch.randn(2, 1, 8, 8)
        bias[:, :, 3] = -float("inf")
        for dropout in (0.0, 0.5):
            for is_causal in (False, True):
                with self.subTest(dropout=dropout, is_causal=is_causal):
                    there = [item.to(CUDA).requires_grad_() for item in tensors]
                    options = {"dropout_p": dropout, "is_causal": is_causal, "attn_mask": None if is_causal else bias.to(CUDA)}
                    torch.cuda.manual_seed(1)
                    out = nn.functional.scaled_dot_product_attention(*there, **options)
                    if not dropout and tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 7):
                        # As the kernels that programs expect leave it: a view of all heads at a place needs no copy. Older versions take no
                        # such kernel on a device that they do not know.
                        out.transpose(1, 2).view(2, 8, 24)
                    # The same, with what was dropped read from the result for values that are a unit matrix.
                    torch.cuda.manual_seed(1)
                    unit = torch.eye(8, device=CUDA).expand(2, 3, 8, 8)
                    dropped = nn.functional.scaled_dot_product_attention(*there[:2], unit, **options).detach().cpu() == 0
                    here = [item.clone().requires_grad_() for item in tensors]
                    scores = here[0] @ here[1].transpose(-2, -1) / 8**0.5
                    if is_causal:
                        scores = scores.masked_fill(torch.ones(8, 8, dtype=torch.bool).triu(1), -float("inf"))
                    else:
                        scores = scores + bias.clamp(min=-1e30)
                    weights = scores.softmax(-1).masked_fill(dropped, 0) / (1 - dropout)
                    expected = weights @ here[2]
                    factors = torch.randn(2, 3, 8, 8)
                    (out * factors.to(CUDA)).sum().backward()
                    (expected * factors).sum().backward()
                    torch.testing.assert_close(out.cpu(), expected)
                    for found, right in zip(there, here):
                        torch.testing.assert_close(found.grad.cpu(), right.grad)

    def test_masks_of_attention(self):
        torch.manual_seed(0)
        query, key, value = (torch.randn(2, 3, 5, 8) for _ in range(3))
        attention = nn.functional.scaled_dot_product_attention
        some = torch.rand(5, 5) < 0.6
        some[:, 0] = True
        for options in ({}, {"is_causal": True}, {"attn_mask": some}, {"attn_mask": torch.randn(5, 5)}):
            with self.subTest(**options):
                there = {name: item.to(CUDA) if isinstance(item, torch.Tensor) else item for name, item in options.items()}
                found = attention(query.to(CUDA), key.to(CUDA), value.to(CUDA), **there)
                torch.testing.assert_close(found.cpu(), attention(query, key, value, **options))
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            found = attention(query.to(CUDA), key.to(CUDA), value.to(CUDA))
        torch.testing.assert_close(found.cpu(), attention(query, key, value))
        with self.assertRaisesRegex(RuntimeError, "dtype"):
            attention(query.to(CUDA), key.to(CUDA).half(), value.to(CUDA))

    def test_padding_in_evaluation(self):
        torch.manual_seed(0)
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, batch_first=True), 1).eval()
        x, padding = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
        expected = encoder(x, src_key_padding_mask=padding)
        found = copy.deepcopy(encoder).to(CUDA)(x.to(CUDA), src_key_padding_mask=padding.to(CUDA))
        torch.testing.assert_close(found.cpu()[~padding], expected[~padding])

    def test_convolutions(self):
        torch.manual_seed(0)
        for options in ({}, {"groups": 4}, {"groups": 4, "dilation": 2}, {"stride": 2, "padding": 1}):
            with self.subTest(**options):
                self.compare(nn.Conv2d(4, 8, 3, **options), torch.randn(2, 4, 9, 9))
        self.compare(nn.ConvTranspose2d(4, 8, 3), torch.randn(2, 4, 9, 9))

    def test_normalisations(self):
        torch.manual_seed(0)
        torch.backends.cudnn.enabled = True
        self.compare(nn.BatchNorm2d(4), torch.randn(3, 4, 5, 5))
        self.compare(nn.LayerNorm(6), torch.randn(3, 6))
        self.compare(nn.GroupNorm(2, 4), torch.randn(3, 4, 5))
        self.compare(nn.RMSNorm(6), torch.randn(3, 6))

    def test_embedding(self):
        torch.manual_seed(0)
        self.compare(nn.Embedding(10, 4), torch.tensor([[1, 2], [9, 1]]))


class Tensors(unittest.TestCase):
    def test_outputs_are_resized_and_may_be_inputs(self):
        a = torch.arange(6.0, device=CUDA)
        out = torch.empty(0, device=CUDA)
        self.assertIs(torch.add(a, 1, out=out), out)
        self.assertEqual(out.tolist(), [1, 2, 3, 4, 5, 6])
        torch.mul(a, a, out=a)
        self.assertEqual(a.tolist(), [0, 1, 4, 9, 16, 25])
        large = torch.zeros(3, 4, device=CUDA)
        torch.add(a[::2], 0, out=large[:, 1])
        self.assertEqual(large[:, 1].tolist(), [0, 4, 16])
        self.assertEqual(large.sum().item(), 20)

    def test_views_are_of_the_same_memory(self):
        x = torch.zeros(2, 3, device=CUDA)
        x.t()[1].fill_(5)
        x.view(-1)[5] += 1
        self.assertEqual(x.tolist(), [[0, 5, 0], [0, 5, 1]])
        z = torch.tensor([1 + 2j], device=CUDA)
        torch.view_as_real(z)[0, 1] = 7
        self.assertEqual((z.conj() * 1j).tolist(), [7 + 1j])

    def test_what_overlaps_is_refused_as_on_a_gpu(self):
        x = torch.arange(8, device=CUDA)
        with self.assertRaisesRegex(RuntimeError, "single memory location|overlap"):
            x[1:].add_(x[:-1])

    def test_devices_are_not_mixed(self):
        with self.assertRaisesRegex(RuntimeError, "same device"):
            torch.ones(2, device=CUDA) + torch.ones(2)
        with self.assertRaisesRegex(RuntimeError, "same device"):
            nn.functional.cross_entropy(torch.ones(2, 3, device=CUDA), torch.tensor([0, 1]))
        self.assertEqual((torch.ones(2, device=CUDA) + torch.tensor(2.0)).tolist(), [3, 3])
        self.assertEqual(torch.arange(3, device=CUDA)[torch.tensor([2, 0])].tolist(), [2, 0])

    def test_what_has_no_kernel_for_the_cpu_is_named(self):
        x = torch.ones(4, 4, device=CUDA)
        with self.assertRaisesRegex(NotImplementedError, "aten::_cslt_compress"):
            torch.ops.aten._cslt_compress(x)

    def test_copies(self):
        pinned = torch.arange(4.0).pin_memory()
        self.assertTrue(pinned.is_pinned())
        there = pinned.to(CUDA, non_blocking=True)
        back = torch.empty(4, pin_memory=True)
        back.copy_(there * 2, non_blocking=True)
        torch.cuda.synchronize()
        self.assertEqual(back.tolist(), [0, 2, 4, 6])
        self.assertEqual(there.to(torch.float16).cpu().tolist(), [0, 1, 2, 3])

    def test_several_devices(self):
        if torch.cuda.device_count() < 2:
            self.skipTest("one device")
        a = torch.ones(3, device="cuda:1")
        b = a.to("cuda:0") + 1
        self.assertEqual((b.device.index, (a + 1).device.index), (0, 1))
        with torch.cuda.device(1):
            self.assertEqual(torch.zeros(1, device=CUDA).device.index, 1)
        with self.assertRaisesRegex(RuntimeError, "same device"):
            a + b


class RandomNumbers(unittest.TestCase):
    def test_seeds_and_states(self):
        torch.cuda.manual_seed(3)
        first, second = torch.randn(4, device=CUDA), torch.randn(4, device=CUDA)
        self.assertFalse(torch.equal(first, second))
        torch.cuda.manual_seed(3)
        self.assertTrue(torch.equal(torch.randn(4, device=CUDA), first))
        state = torch.cuda.get_rng_state()
        again = torch.rand(4, device=CUDA)
        torch.cuda.set_rng_state(state)
        self.assertTrue(torch.equal(torch.rand(4, device=CUDA), again))

    def test_the_cpus_numbers_are_left_alone(self):
        torch.manual_seed(1)
        expected = torch.rand(2)
        torch.manual_seed(1)
        nn.functional.dropout(torch.ones(100, device=CUDA))
        torch.randperm(10, device=CUDA)
        self.assertTrue(torch.equal(torch.rand(2), expected))

    def test_a_generator_of_the_program(self):
        draw = lambda: torch.rand(3, device=CUDA, generator=torch.Generator(CUDA).manual_seed(5))
        self.assertTrue(torch.equal(draw(), draw()))
        generator = torch.Generator(CUDA).manual_seed(5)
        pair = [torch.rand(3, device=CUDA, generator=generator) for _ in range(2)]
        self.assertFalse(torch.equal(*pair))

    def test_checkpoints_recompute_the_same_dropout(self):
        from torch.utils.checkpoint import checkpoint

        x = torch.ones(1000, device=CUDA, requires_grad=True)
        y = checkpoint(lambda x: nn.functional.dropout(x, 0.5), x, use_reentrant=False)
        y.sum().backward()
        self.assertTrue(torch.equal(x.grad, y.detach()))


class Streams(unittest.TestCase):
    def test_operations_on_several_streams(self):
        side = torch.cuda.Stream()
        x = torch.zeros(1000, device=CUDA)
        for _ in range(10):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                x += 1
            torch.cuda.current_stream().wait_stream(side)
            x *= 2
        self.assertEqual(x[0].item(), sum(2**k for k in range(1, 11)))

    def test_devices_that_are_not_current(self):
        from collspec_torch import driver

        if torch.cuda.device_count() < 2:
            self.skipTest("one device")
        x, ended = torch.zeros(4, device="cuda:1"), []

        @driver.HOST_FUNCTION
        def late(_):
            time.sleep(0.2)
            ended.append(True)

        with torch.cuda.device(1):
            driver.launch_host_function(driver.current_stream(1), late, None)
        y = x + 1
        self.assertEqual((ended, y.tolist()), ([True], [1.0] * 4), "an operation waits for the stream of its own device")

    def test_priorities(self):
        for priority in (0, -1, -5):
            with torch.cuda.stream(torch.cuda.Stream(priority=priority)):
                self.assertEqual((torch.ones(2, device=CUDA) * 2).tolist(), [2, 2])

    def test_threads(self):
        results = {}

        def work(number):
            with torch.cuda.stream(torch.cuda.Stream()):
                x = torch.full((100,), float(number), device=CUDA, requires_grad=True)
                (x * x).sum().backward()
                results[number] = x.grad[0].item()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, {number: 2.0 * number for number in range(8)})

    def test_events(self):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        torch.ones(10, device=CUDA).sum()
        end.record()
        end.synchronize()
        self.assertTrue(end.query() and start.elapsed_time(end) >= 0)


class Graphs(unittest.TestCase):
    def test_operations_run_at_each_launch(self):
        x = torch.ones(4, device=CUDA)
        total = torch.zeros(4, device=CUDA)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x * 2
            total += y
            z = y.sum()
        self.assertEqual(total.tolist(), [0] * 4, "capturing runs nothing")
        for value in (1, 3):
            x.fill_(value)
            graph.replay()
            torch.cuda.synchronize()
            self.assertEqual((y.tolist(), z.item()), ([2 * value] * 4, 8 * value))
        self.assertEqual(total.tolist(), [8] * 4)

    def test_a_step_of_training(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 2)).to(CUDA)
        plain = copy.deepcopy(model)
        batches = [torch.randn(3, 4) for _ in range(4)]
        given = torch.zeros(3, 4, device=CUDA)
        optimiser = torch.optim.Adam(model.parameters(), capturable=True)

        def step(model, optimiser, batch):
            optimiser.zero_grad(set_to_none=True)
            model(batch).square().sum().backward()
            optimiser.step()

        before = copy.deepcopy(model.state_dict())
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            step(model, optimiser, given)
        torch.cuda.current_stream().wait_stream(side)
        model.load_state_dict(before)
        for state in optimiser.state.values():
            for value in state.values():
                value.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step(model, optimiser, given)
        reference = torch.optim.Adam(plain.parameters(), capturable=True)
        for batch in batches:
            given.copy_(batch)
            graph.replay()
            step(plain, reference, batch.to(CUDA))
        torch.cuda.synchronize()
        for one, other in zip(model.parameters(), plain.parameters()):
            torch.testing.assert_close(one, other)

    def test_new_random_numbers_at_each_launch(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x = torch.rand(4, device=CUDA)
        found = []
        for _ in range(2):
            graph.replay()
            torch.cuda.synchronize()
            found.append(x.clone())
        self.assertFalse(torch.equal(*found))


class Tools(unittest.TestCase):
    def test_the_profiler_sees_the_cpu(self):
        with torch.profiler.profile() as profile:
            torch.ones(3, device=CUDA).sum()
        self.assertIn("aten::sum", {event.key for event in profile.key_averages()})

    def test_scripts(self):
        function = torch.jit.script(doubled_and_more)
        x = torch.ones(3, device=CUDA)
        for _ in range(4):
            self.assertTrue(torch.equal(function(x), (x * 2 + 1).relu()))


def doubled_and_more(x):
    return torch.relu(x * 2 + 1)


class Compilation(unittest.TestCase):
    def test_a_compiled_function_is_eager_and_says_so(self):
        from collspec_torch import choices

        choices._said.clear()
        told = io.StringIO()
        with redirect_stderr(told):
            function = torch.compile(lambda x: x.sin() + 1)
            torch.compile(nn.Linear(2, 2))
        x = torch.ones(3, device=CUDA)
        self.assertTrue(torch.equal(function(x), x.sin() + 1))
        self.assertEqual(told.getvalue().count("eager mode"), 1)


if __name__ == "__main__":
    unittest.main()
