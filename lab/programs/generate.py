"""Greedy tokens of a language model with random weights, by Transformers' `generate`."""

import common

torch = common.torch_of()
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

config = LlamaConfig(vocab_size=8000, hidden_size=512, intermediate_size=1536,
                     num_hidden_layers=6, num_attention_heads=8)
model = LlamaForCausalLM(config).cuda().eval()
prompt = torch.randint(0, 8000, (2, 32), device="cuda")
tokens = None


def request():
    global tokens
    tokens = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=48,
                            min_new_tokens=48, do_sample=False, pad_token_id=0)
    torch.cuda.synchronize()


with torch.inference_mode():
    measured = common.times(request, 5, warm=1)
common.report(common.digest([tokens.cpu()]), measured)
