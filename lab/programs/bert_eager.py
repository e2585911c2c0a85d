"""Requests to BERT-base in single precision, eager, each awaited."""

import common

torch = common.torch_of()
model, tokens = common.bert(torch)
last = None


def request():
    global last
    last = model(tokens).last_hidden_state
    torch.cuda.synchronize()


with torch.inference_mode():
    measured = common.times(request, 150)
    common.report(common.digest([last.cpu()]), measured)
