"""Whisper with random weights, by Transformers: the transcription of three seconds of sound."""

from . import needs
from .work import Work

#: Width, layers of encoder and decoder, heads, and bands of the spectrogram.
SIZES = {
    "large": (1280, 32, 20, 128),
    "medium": (1024, 24, 16, 80),
    "small": (768, 12, 12, 80),
    "base": (512, 6, 8, 80),
}
TINY = (64, 2, 2, 80)
RATE, SECONDS = 16000, 3


class Whisper(Work):
    """A spectrogram, padded to 30 s as Whisper has it, is encoded; tokens follow greedily."""

    settings = {"size": tuple(SIZES), "tokens": 40}
    imports = ("torch.profiler", "transformers.models.whisper.modeling_whisper",
               "transformers.models.whisper.feature_extraction_whisper")

    def __init__(self, role, device):
        super().__init__(role, device)
        transformers = needs("transformers", "transformers", "Transformers")
        width, layers, heads, bands = TINY if self.is_tiny else SIZES[self.option("size")]
        config = transformers.WhisperConfig(
            d_model=width, encoder_layers=layers, decoder_layers=layers, num_mel_bins=bands,
            encoder_attention_heads=heads, decoder_attention_heads=heads,
            encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width)
        make = lambda: transformers.WhisperForConditionalGeneration(config)  # noqa: E731
        self.model = self.on_device(make).to(self.dtype).eval()
        self.count = self.option("tokens", tiny=4)
        self.sound = self.features(transformers, bands)
        start = config.decoder_start_token_id
        self.start = self.torch.full((role.batch, 1), start, device=device.target)
        self.tokens = None

    def features(self, transformers, bands):
        """The spectrogram of a chord in noise."""
        import numpy

        numbers = numpy.random.default_rng(1)
        at = numpy.arange(RATE * SECONDS) / RATE
        chord = sum(numpy.sin(2 * numpy.pi * pitch * at) for pitch in (220, 277, 330))
        sound = (chord / 8 + numbers.normal(0, 0.05, at.size)).astype("float32")
        extract = transformers.WhisperFeatureExtractor(feature_size=bands)
        made = extract(sound, sampling_rate=RATE, return_tensors="np")["input_features"]
        whole = self.torch.from_numpy(made).to(self.device.target, self.dtype)
        return whole.repeat(self.role.batch, 1, 1)

    def launch(self):
        encoded = self.model.get_encoder()(self.sound)
        token, cache, tokens = self.start, None, []
        for _ in range(self.count):
            said = self.model(encoder_outputs=encoded, decoder_input_ids=token,
                              past_key_values=cache, use_cache=True)
            cache = said.past_key_values
            token = said.logits[:, -1:].argmax(-1)
            tokens.append(token)
        self.tokens = self.torch.cat(tokens, 1)

    def outputs(self):
        return [self.tokens]
