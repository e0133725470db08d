"""The README's table of a GPU, from bench/gpu_results.json, which is written by hand after a run."""

import json

from comparison import ROOT, header, row


def number(value, unit):
    return f"{value:,}{'' if unit == 'tokens/s' else ' ' + unit}"


def table():
    results = json.loads((ROOT / "bench/gpu_results.json").read_text(encoding="utf-8"))
    yield from header(["random weights; language models in tokens per second", "Vesper",
                       "peer, Vulkan", "PyTorch, CUDA (another run)", "limit of the GPU"])
    for entry in results["rows"]:
        unit = entry["unit"]
        peer, value = entry["peer"]
        # Against the peer: how many times as fast Vesper is.
        ratio = entry["ours"] / value if unit == "tokens/s" else value / entry["ours"]
        yield row([entry["load"], f"{number(entry['ours'], unit)} ({ratio:.2f}x)",
                   f"{peer}: {number(value, unit)}",
                   number(entry["pytorch"], unit) if "pytorch" in entry else "",
                   number(entry["limit"], unit) if "limit" in entry else ""])
    yield ""
    yield (f"{results['date']}, {results['machine']}; {results['versions']}; in turn; in "
           f"brackets how many times as fast as the peer. {results['commands']}. PyTorch's figures are "
           f"no comparison: {results['pytorch']}. The limit: {results['limit']}.")
