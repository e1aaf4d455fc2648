"""A server's refusal of a reply's length is read as it was meant, however it is worded."""

import pytest

from kernelwright.agents.providers.fault import FaultKind, kind_of_status
from kernelwright.agents.providers.output_limit import Asked, OutputLimit

BYTES = 36_000
ASKED = Asked(BYTES, 16_000, ())
BESIDE_THE_PROMPT = {
    "vLLM": "'max_tokens' or 'max_completion_tokens' is too large: 16000. This model's maximum "
    "context length is 20000 tokens and your request has 12000 input tokens "
    "(16000 > 20000 - 12000). None",
    "vLLM, later": "You passed 12000 input tokens and requested 16000 output tokens. However, the "
    "model's context length is only 20000 tokens, resulting in a maximum input length of 4000 "
    "tokens. Please reduce the length of the input prompt.",
    "OpenAI": "This model's maximum context length is 20000 tokens. However, you requested 28000 "
    "tokens (12000 in the messages, 16000 in the completion). Please reduce the length.",
    "OpenAI, earlier": "This model's maximum context length is 20,000 tokens, however you "
    "requested 28,000 tokens (12,000 in your prompt; 16,000 for the completion).",
    "OpenRouter": "This endpoint's maximum context length is 20000 tokens. However, you requested "
    "about 28000 tokens (9000 of text input, 3000 of tool input, 16000 in the output).",
    "SGLang": "Requested token count exceeds the model's maximum context length of 20000 tokens. "
    "You requested a total of 28000 tokens: 12000 tokens from the input messages and 16000 tokens "
    "for the completion.",
    "Anthropic": "input length and `max_tokens` exceed context limit: 12000 + 16000 > 20000, "
    "decrease input length or `max_tokens` and try again",
    "LiteLLM": 'litellm.BadRequestError: AnthropicException - b\'{"type":"error","error":{"type":'
    '"invalid_request_error","message":"input length and `max_tokens` exceed context limit: '
    "12000 + 16000 > 20000, decrease input length or `max_tokens` and try again\"}}'",
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 20000. Given: "
    "12000 `inputs` tokens and 16000 `max_new_tokens`",
}
OF_THE_MODEL = {
    "Anthropic": "max_tokens: 16000 > 8192, which is the maximum allowed number of output tokens "
    "for claude-3-haiku-20240307",
    "OpenAI": "max_tokens is too large: 16000. This model supports at most 8192 completion tokens, "
    "whereas you provided 16000.",
    "Groq": "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` "
    "is less than the `context_window` for this model",
    "DeepSeek": "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    "TGI": "Input validation error: `max_new_tokens` must be <= 8192. Given: 16000",
}
OF_THE_PROMPT = {
    "llama.cpp": "request (8288 tokens) exceeds the available context size (8192 tokens), try "
    "increasing it",
    "llama-cpp-python": "Requested tokens (2285) exceed context window of 2048",
    "OpenAI": "This model's maximum context length is 4097 tokens. However, your messages resulted "
    "in 13393 tokens. Please reduce the length of the messages.",
    "Anthropic": "prompt is too long: 213462 tokens > 200000 maximum",
    "Anthropic, both": "input length and `max_tokens` exceed context limit: 199959 + 16000 > "
    "200000, decrease input length or `max_tokens` and try again",
    "vLLM": "This model's maximum context length is 8192 tokens. However, your request has 12000 "
    "input tokens. Please reduce the length of the input messages.",
    "TGI": "Input validation error: `inputs` must have less than 1024 tokens. Given: 1872",
    "Ollama": "the input length exceeds the context length",
    "Gemini": "The input token count (1196265) exceeds the maximum number of tokens allowed",
}


@pytest.mark.parametrize("server", BESIDE_THE_PROMPT)
def test_what_the_context_leaves_is_asked_for(server: str) -> None:
    limit = OutputLimit()
    assert limit.learn(BESIDE_THE_PROMPT[server], ASKED) is FaultKind.UNSUPPORTED
    assert 7_900 <= limit.tokens(BYTES, 16_000) < 8_000


@pytest.mark.parametrize("server", BESIDE_THE_PROMPT)
def test_a_shorter_prompt_leaves_more_and_a_longer_one_less(server: str) -> None:
    limit = OutputLimit()
    limit.learn(BESIDE_THE_PROMPT[server], ASKED)
    assert limit.tokens(BYTES - 9_000, 16_000) > 10_500
    assert limit.tokens(BYTES + 9_000, 16_000) < 5_500
    assert limit.tokens(10 * BYTES, 16_000) == 4_000


@pytest.mark.parametrize("server", OF_THE_MODEL)
def test_a_limit_of_the_model_holds_for_every_prompt(server: str) -> None:
    limit = OutputLimit()
    assert limit.learn(OF_THE_MODEL[server], ASKED) is FaultKind.UNSUPPORTED
    assert {limit.tokens(size, 16_000) for size in (100, BYTES, 10 * BYTES)} == {8192}


@pytest.mark.parametrize("server", OF_THE_PROMPT)
def test_a_prompt_that_fills_the_context_is_no_limit_of_a_reply(server: str) -> None:
    limit = OutputLimit()
    said = OF_THE_PROMPT[server]
    kind = limit.learn(said, ASKED) or kind_of_status(400, said)
    assert kind is FaultKind.CONTEXT_OVERFLOW


def test_a_context_without_a_count_of_the_prompt_is_approached() -> None:
    limit, most = OutputLimit(), 16_000
    while most > 1_000:
        said = f"max_tokens {most} exceeds the context window of 16384"
        assert limit.learn(said, Asked(900, most, ())) is FaultKind.UNSUPPORTED
        assert limit.tokens(900, 16_000) < most
        most = limit.tokens(900, 16_000)


def test_a_server_that_refuses_what_its_numbers_allow_is_asked_for_half() -> None:
    limit = OutputLimit()
    said = "max_tokens is too large. The maximum context length is 90000 and 9000 input tokens came"
    assert limit.learn(said, ASKED) is FaultKind.UNSUPPORTED
    assert limit.tokens(BYTES, 16_000) == limit.tokens(2 * BYTES, 16_000) == 8_000


def test_a_prompt_that_was_not_counted_is_tried_with_a_reply_of_use() -> None:
    limit = OutputLimit()
    assert limit.learn(BESIDE_THE_PROMPT["vLLM"], ASKED) is FaultKind.UNSUPPORTED
    longer = Asked(BYTES + 23_000, limit.tokens(BYTES + 23_000, 16_000), ())
    assert longer.output_tokens == 4_000
    said = "input length and `max_tokens` exceed context limit: 18000 + 4000 > 20000"
    assert limit.learn(said, longer) is FaultKind.UNSUPPORTED
    assert limit.tokens(longer.input_bytes, 16_000) == 1_936


def test_a_refused_name_is_no_limit() -> None:
    said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    assert OutputLimit().learn(said, ASKED) is None
