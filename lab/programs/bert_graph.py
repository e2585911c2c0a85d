"""Requests to BERT-base, captured as a CUDA graph, each awaited."""

import common

torch = common.torch_of()
model, tokens = common.bert(torch)
side = torch.cuda.Stream()
with torch.inference_mode():
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(tokens)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = model(tokens).last_hidden_state


def request():
    graph.replay()
    torch.cuda.synchronize()


measured = common.times(request, 300)
common.report(common.digest([output.cpu()]), measured)
