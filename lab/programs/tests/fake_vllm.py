"""A server with the interface of `vllm serve` whose tokens are sums of what they follow."""

import argparse
import asyncio

from aiohttp import web


async def completions(request):
    asked = await request.json()
    if not asked["stream"]:
        await asyncio.sleep(.001 * asked["max_tokens"])
        return web.json_response({"choices": [{"token_ids": [1] * asked["max_tokens"]}]})
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    last = sum(asked["prompt"])
    for _ in range(asked["max_tokens"]):
        await asyncio.sleep(.001)
        last = (last * 31 + 7) % 128256
        line = f'data: {{"choices": [{{"text": "t{last}", "token_ids": [{last}]}}]}}\n\n'
        await answer.write(line.encode())
    await answer.write(b"data: [DONE]\n\n")
    return answer


async def health(_request):
    return web.Response()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("model")
    parser.add_argument("--served-model-name")
    parser.add_argument("--port", type=int)
    given, _ = parser.parse_known_args()
    app = web.Application()
    app.add_routes([web.get("/health", health), web.post("/v1/completions", completions)])
    web.run_app(app, host="127.0.0.1", port=given.port, print=None)
