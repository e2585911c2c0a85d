"""Requests to BERT-base, captured as a CUDA graph, each awaited."""

import common

torch = common.torch_of()
model, tokens = common.bert(torch)
with torch.inference_mode():
    graph, output = common.graph_of(torch, lambda: model(tokens).last_hidden_state)


def request():
    graph.replay()
    torch.cuda.synchronize()


measured = common.times(request, 300)
common.report(common.digest([output.cpu()]), measured)
