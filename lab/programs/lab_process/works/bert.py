"""BERT with random weights, by Transformers: requests of 384 tokens."""

from . import needs
from .work import Work

LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
         "intermediate_size": 4096}
TINY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 128, "vocab_size": 30000}


def model_of(work, size, **more):
    """A BERT on the device of `work`."""
    transformers = needs("transformers", "transformers", "Transformers")
    sizes = TINY if work.is_tiny else size
    config = transformers.BertConfig(**sizes, **more)
    return work.on_device(lambda: transformers.BertModel(config))


class BertBase(Work):
    """BERT-base: 12 layers, 110 million weights."""

    settings = {"tokens": 384}
    imports = ("torch.profiler", "transformers.models.bert.modeling_bert")
    size = {}

    def __init__(self, role, device):
        super().__init__(role, device)
        self.model = model_of(self, self.size).to(self.dtype).eval()
        shape = (role.batch, self.option("tokens", tiny=16))
        self.tokens = self.torch.randint(0, 30000, shape, device=device.target)
        self.output = None

    def launch(self):
        self.output = self.model(self.tokens).last_hidden_state

    def outputs(self):
        return [self.output]


class BertLarge(BertBase):
    """BERT-large: 24 layers, 340 million weights."""

    size = LARGE
